#include "tests/gguf_fixture.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <dirent.h>

#include "base/numbers.h"
#include "tests/fixture.h"
#include "tests/hashed_weights.h"

#define FIXTURES "tests/fixtures/gguf"

static int compare_names(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

char **gguf_fixture_names(void) {
    char **names = calloc(256, sizeof *names);
    DIR *dir = opendir(FIXTURES);
    assert_non_null(names);
    assert_non_null(dir);
    size_t n = 0;
    for (struct dirent *e; n < 255 && (e = readdir(dir));) {
        char *dot = strrchr(e->d_name, '.');
        if (!dot || strcmp(dot, ".json") != 0) continue;
        names[n] = strndup(e->d_name, (size_t)(dot - e->d_name));
        assert_non_null(names[n++]);
    }
    closedir(dir);
    qsort(names, n, sizeof *names, compare_names);
    return names;
}

json_t *gguf_fixture_load(const char *name) {
    char path[512];
    json_error_t error;
    snprintf(path, sizeof path, FIXTURES "/%s.json", name);
    json_t *json = json_load_file(path, 0, &error);
    if (!json) fail_msg("%s: %s", path, error.text);
    return json;
}

/* ---- Output buffer ---- */

typedef struct Out {
    uint8_t *bytes;
    size_t n, capacity;
} Out;

static void put(Out *o, const void *bytes, size_t n) {
    if (o->n + n > o->capacity) {
        o->capacity = 2 * (o->n + n);
        o->bytes = realloc(o->bytes, o->capacity);
        assert_non_null(o->bytes);
    }
    if (n) memcpy(o->bytes + o->n, bytes, n);
    o->n += n;
}

static void put_u32(Out *o, uint32_t value) {
    put(o, &value, sizeof value);
}

static void put_u64(Out *o, uint64_t value) {
    put(o, &value, sizeof value);
}

static void put_text(Out *o, const char *text) {
    put_u64(o, strlen(text));
    put(o, text, strlen(text));
}

static void put_align(Out *o) {
    while (o->n % 32) put(o, "", 1);
}

/* ---- Keys ---- */

static void put_scalar(Out *o, const char *kind, const json_t *value) {
    uint8_t flag = json_is_true(value);
    float number = json_is_string(value) && strcmp(json_string_value(value), "-inf") == 0
                       ? -INFINITY
                       : (float)json_number_value(value);
    if (strcmp(kind, "string") == 0) {
        put_text(o, json_string_value(value));
    } else if (strcmp(kind, "bool") == 0) {
        put(o, &flag, 1);
    } else if (strcmp(kind, "float32") == 0) {
        put(o, &number, sizeof number);
    } else if (strcmp(kind, "uint64") == 0) {
        put_u64(o, (uint64_t)json_integer_value(value));
    } else if (strcmp(kind, "uint8") == 0) {
        put(o, &(uint8_t){(uint8_t)json_integer_value(value)}, 1);
    } else if (strcmp(kind, "int16") == 0) {
        put(o, &(int16_t){(int16_t)json_integer_value(value)}, 2);
    } else {
        put_u32(o, (uint32_t)json_integer_value(value));
    }
}

/* Writes one metadata entry from [name, kind, value]; "[]" at the end of the kind means an
 * array. */
static void put_key(Out *o, const json_t *pair) {
    static const struct {
        const char *name;
        uint32_t number;
    } kinds[] = {{"uint8", 0},   {"int16", 3}, {"uint32", 4}, {"int32", 5},
                 {"float32", 6}, {"bool", 7},  {"string", 8}, {"uint64", 10}};
    const char *kind = json_string_value(json_array_get(pair, 1));
    const json_t *value = json_array_get(pair, 2);
    char scalar[16];
    snprintf(scalar, sizeof scalar, "%.*s", (int)strcspn(kind, "["), kind);
    uint32_t number = UINT32_MAX;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(kinds[i].name, scalar) == 0) number = kinds[i].number;
    if (number == UINT32_MAX) fail_msg("a key of type %s", kind);
    put_text(o, json_string_value(json_array_get(pair, 0)));
    if (!json_is_array(value)) {
        put_u32(o, number);
        put_scalar(o, scalar, value);
        return;
    }
    put_u32(o, 9);
    put_u32(o, number);
    put_u64(o, json_array_size(value));
    for (size_t i = 0; i < json_array_size(value); i++)
        put_scalar(o, scalar, json_array_get(value, i));
}

/* ---- Tensors ---- */

static size_t element_count(const json_t *shape) {
    size_t n = 1;
    for (size_t i = 0; i < json_array_size(shape); i++)
        n *= (size_t)json_integer_value(json_array_get(shape, i));
    return n;
}

static size_t integer(const json_t *list, size_t i) {
    return (size_t)json_integer_value(json_array_get(list, i));
}

/* Makes the hashed weights of a tensor of the source fixture, *n values; the caller frees them. */
static float *source_tensor(const json_t *recipes, const char *name, size_t *n) {
    const json_t *recipe = json_object_get(recipes, name);
    if (!recipe) fail_msg("the source has no tensor %s", name);
    *n = element_count(json_array_get(recipe, 3));
    float *values = malloc((*n + 1) * sizeof *values);
    assert_non_null(values);
    const char *hashed = json_string_value(json_array_get(recipe, 4));
    hashed_tensor(hashed ? hashed : name, (unsigned)integer(recipe, 0),
                  json_number_value(json_array_get(recipe, 1)),
                  json_number_value(json_array_get(recipe, 2)), values, *n);
    return values;
}

/* Copies rows of `width` elements out of a source tensor, as described by `piece`: [source,
 * stride between elements, [[first element, step between rows, rows], ...], factor (absent: 1)].
 * Returns the number of rows. */
static size_t copy_piece(const json_t *piece, const json_t *recipes, size_t width, float *out) {
    size_t n, stride = integer(piece, 1), rows = 0;
    float *values = source_tensor(recipes, json_string_value(json_array_get(piece, 0)), &n);
    const json_t *runs = json_array_get(piece, 2), *factor = json_array_get(piece, 3);
    float times = factor ? (float)json_number_value(factor) : 1.0f;
    for (size_t i = 0; i < json_array_size(runs); i++) {
        const json_t *run = json_array_get(runs, i);
        json_int_t start = json_integer_value(json_array_get(run, 0));
        json_int_t step = json_integer_value(json_array_get(run, 1));
        for (size_t r = 0; r < integer(run, 2); r++, rows++, start += step)
            for (size_t k = 0; k < width; k++) {
                assert_in_range((size_t)start + k * stride, 0, n - 1);
                out[rows * width + k] = values[(size_t)start + k * stride] * times;
            }
    }
    free(values);
    return rows;
}

/* Returns the description of a tensor as an object. Where the fixture has a name alone, it is the
 * source's tensor as it stands; a "*" in the name stands for all numbers from 0, whose tensors are
 * stacked. Whole numbers of the source become I32. The caller calls json_decref. */
static json_t *described(const json_t *tensor, const json_t *recipes) {
    if (!json_is_string(tensor)) return json_incref((json_t *)tensor);
    const char *name = json_string_value(tensor), *star = strchr(name, '*');
    json_t *from = json_array(), *shape = NULL;
    bool whole = false;
    for (int i = 0; i == 0 || star; i++) {
        char one[128];
        snprintf(one, sizeof one, "%s", name);
        if (star) snprintf(one, sizeof one, "%.*s%d%s", (int)(star - name), name, i, star + 1);
        const json_t *recipe = json_object_get(recipes, one);
        if (!recipe && i > 0) break;
        if (!recipe) fail_msg("the source has no tensor %s", one);
        shape = json_array_get(recipe, 3);
        whole = json_is_string(json_array_get(recipe, 5));
        size_t width = integer(shape, json_array_size(shape) - 1);
        json_array_append_new(from, json_pack("[s, i, [[i, I, I]]]", one, 1, 0, (json_int_t)width,
                                              (json_int_t)(element_count(shape) / width)));
    }
    shape = json_deep_copy(shape);
    if (star) json_array_insert_new(shape, 0, json_integer((json_int_t)json_array_size(from)));
    return json_pack("{s: o, s: o, s: b}", "shape", shape, "from", from, "whole", whole);
}

/* Returns the number of elements in a row of the description: n / rows. The description of a
 * permuted vector has one row for each element. */
static size_t row_width(const json_t *tensor, size_t n) {
    size_t rows = 0, pieces = json_array_size(json_object_get(tensor, "from"));
    for (size_t i = 0; i < pieces; i++) {
        const json_t *runs = json_array_get(json_array_get(json_object_get(tensor, "from"), i), 2);
        for (size_t k = 0; k < json_array_size(runs); k++)
            rows += integer(json_array_get(runs, k), 2);
    }
    return rows ? n / rows : n;
}

static float *tensor_values(const json_t *tensor, const json_t *recipes, size_t n) {
    float *values = malloc((n + 1) * sizeof *values);
    assert_non_null(values);
    const json_t *given = json_object_get(tensor, "values"),
                 *from = json_object_get(tensor, "from");
    if (given) {
        for (size_t i = 0; i < n; i++)
            values[i] = (float)json_number_value(json_array_get(given, i));
        return values;
    }
    size_t width = row_width(tensor, n), at = 0;
    for (size_t i = 0; i < json_array_size(from); i++)
        at += width * copy_piece(json_array_get(from, i), recipes, width, values + at);
    assert_int_equal(at, n);
    float add = (float)json_number_value(json_object_get(tensor, "add"));
    for (size_t i = 0; add != 0.0f && i < n; i++) values[i] += add;
    bool minus_exp = json_is_true(json_object_get(tensor, "minus_exp"));
    for (size_t i = 0; minus_exp && i < n; i++) values[i] = (float)-exp((double)values[i]);
    return values;
}

/* Writes Q8_0 blocks of 32 elements: the scale as f16, then each element divided by the scale and
 * rounded. `widened`: writes the rounded values as F32. */
static void put_q8(Out *o, const float *values, size_t n, bool widened) {
    for (size_t i = 0; i < n; i += 32) {
        float largest = 0.0f, wide[32];
        int8_t codes[32];
        for (size_t k = 0; k < 32; k++) largest = fmaxf(largest, fabsf(values[i + k]));
        uint16_t half = numbers_float_to_half(largest / 127.0f);
        float scale = numbers_half_to_float(half);
        for (size_t k = 0; k < 32; k++) {
            codes[k] = scale > 0.0f
                           ? (int8_t)fmaxf(-127.0f, fminf(127.0f, rintf(values[i + k] / scale)))
                           : 0;
            wide[k] = (float)codes[k] * scale;
        }
        if (widened) {
            put(o, wide, sizeof wide);
        } else {
            put(o, &half, sizeof half);
            put(o, codes, sizeof codes);
        }
    }
}

/* Writes MXFP4 blocks of 32 elements: an exponent byte, then for each element the nearest of 16
 * 4-bit floats. Byte i holds element i in its low nibble and element i + 16 in its high nibble.
 * `widened`: writes the rounded values as F32. */
static void put_mxfp4(Out *o, const float *values, size_t n, bool widened) {
    static const float levels[16] = {0,     0.5f,  1,  1.5f,  2,  3,  4,  6,
                                     -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6};
    for (size_t i = 0; i < n; i += 32) {
        float largest = 0.0f, wide[32];
        uint8_t codes[32], block[17];
        int exponent = 0;
        for (size_t k = 0; k < 32; k++) largest = fmaxf(largest, fabsf(values[i + k]));
        frexpf(largest, &exponent); /* largest < 2^exponent, and the largest level is 6 */
        exponent -= 3;
        for (size_t k = 0; k < 32; k++) {
            float x = ldexpf(values[i + k], -exponent);
            codes[k] = 0;
            for (uint8_t c = 1; c < 16; c++)
                if (fabsf(levels[c] - x) < fabsf(levels[codes[k]] - x)) codes[k] = c;
            wide[k] = ldexpf(levels[codes[k]], exponent);
        }
        block[0] = (uint8_t)(exponent + 127);
        for (size_t k = 0; k < 16; k++) block[1 + k] = (uint8_t)(codes[k] | codes[k + 16] << 4);
        if (widened) {
            put(o, wide, sizeof wide);
        } else {
            put(o, block, sizeof block);
        }
    }
}

static void put_whole_numbers(Out *o, const float *values, size_t n) {
    for (size_t i = 0; i < n; i++) put_u32(o, (uint32_t)values[i]);
}

static void put_values(Out *o, const float *values, size_t n, StoredType type, bool widened) {
    if (type == STORED_MXFP4) {
        put_mxfp4(o, values, n, widened);
        return;
    }
    if (type == STORED_Q8_0) {
        put_q8(o, values, n, widened);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        uint16_t half = numbers_float_to_half(values[i]);
        float wide = numbers_half_to_float(half);
        if (type == STORED_F32) {
            put(o, &values[i], sizeof values[i]);
        } else if (widened) {
            put(o, &wide, sizeof wide);
        } else {
            put(o, &half, sizeof half);
        }
    }
}

static void put_tensor(Out *infos, Out *data, const char *name, const json_t *tensor,
                       const json_t *recipes, StoredType type, bool widened) {
    static const uint32_t numbers[] = {
        [STORED_F32] = 0, [STORED_F16] = 1, [STORED_Q8_0] = 8, [STORED_MXFP4] = 39};
    const json_t *shape = json_object_get(tensor, "shape");
    size_t n_dims = json_array_size(shape), n = element_count(shape);
    size_t width = integer(shape, n_dims - 1);
    if (n_dims == 1 || (type == STORED_Q8_0 && width % 32 != 0)) type = STORED_F32;
    if (type == STORED_MXFP4 && (!strstr(name, "_exps.weight") || width % 32 != 0))
        type = STORED_F32;
    put_text(infos, name);
    put_u32(infos, (uint32_t)n_dims);
    for (size_t i = n_dims; i-- > 0;) put_u64(infos, integer(shape, i));
    bool whole = json_is_true(json_object_get(tensor, "whole"));
    put_u32(infos, whole ? 26 : widened ? 0 : numbers[type]);
    put_u64(infos, data->n);
    float *values = tensor_values(tensor, recipes, n);
    if (whole) {
        put_whole_numbers(data, values, n);
    } else {
        put_values(data, values, n, type, widened);
    }
    put_align(data);
    free(values);
}

void gguf_fixture_write(const json_t *fixture, const char *path, StoredType type, bool widened) {
    Fixture source = fixture_load(json_string_value(json_object_get(fixture, "source")));
    json_t *recipes = json_object_get(source.json, "tensors");
    json_t *more = json_object_get(fixture, "more_recipes");
    if (more) json_object_update(recipes, more);
    json_t *keys = json_object_get(fixture, "keys"), *tensors = json_object_get(fixture, "tensors");
    Out infos = {0}, data = {0}, file = {0};
    const char *name;
    json_t *tensor;
    put(&file, "GGUF", 4);
    put_u32(&file, 3);
    put_u64(&file, json_object_size(tensors));
    put_u64(&file, json_array_size(keys));
    for (size_t i = 0; i < json_array_size(keys); i++) put_key(&file, json_array_get(keys, i));
    json_object_foreach(tensors, name, tensor) {
        json_t *description = described(tensor, recipes);
        put_tensor(&infos, &data, name, description, recipes, type, widened);
        json_decref(description);
    }
    put(&file, infos.bytes, infos.n);
    put_align(&file);
    put(&file, data.bytes, data.n);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(file.bytes, 1, file.n, f), file.n);
    assert_int_equal(fclose(f), 0);
    free(infos.bytes);
    free(data.bytes);
    free(file.bytes);
    fixture_free(&source);
}
