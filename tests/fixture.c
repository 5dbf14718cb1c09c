#include "tests/fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/numbers.h"
#include "tests/hashed_weights.h"

#define FIXTURES "tests/fixtures/logits"

char *fixture_path(const char *directory, const char *name) {
    size_t size = strlen(directory) + strlen(name) + 2;
    char *path = malloc(size);
    assert_non_null(path);
    snprintf(path, size, "%s/%s", directory, name);
    return path;
}

static int32_t *id_list(const json_t *json, const char *key, size_t *n) {
    json_t *list = json_object_get(json, key);
    assert_true(json_is_array(list));
    *n = json_array_size(list);
    int32_t *ids = malloc((*n + 1) * sizeof *ids);
    assert_non_null(ids);
    for (size_t i = 0; i < *n; i++) ids[i] = (int32_t)json_integer_value(json_array_get(list, i));
    return ids;
}

/* Reads n numbers of 24 bits, little-endian in two's complement, in units of `unit`. */
static void read_logits(FILE *file, const char *path, double unit, float *logits, size_t n) {
    for (size_t i = 0; i < n; i++) {
        unsigned char b[3];
        if (fread(b, sizeof b, 1, file) != 1) fail_msg("%s ends after %zu numbers", path, i);
        int32_t value = b[0] | b[1] << 8 | b[2] << 16;
        logits[i] = (float)(unit * (value < 1 << 23 ? value : value - (1 << 24)));
    }
}

Fixture fixture_load(const char *name) {
    char path[512];
    json_error_t error;
    snprintf(path, sizeof path, FIXTURES "/%s.json", name);
    Fixture f = {.json = json_load_file(path, 0, &error)};
    if (!f.json) fail_msg("%s: %s", path, error.text);
    json_t *config = json_object_get(f.json, "config");
    json_t *passes = json_object_get(f.json, "passes");
    f.name = json_string_value(json_object_get(f.json, "name"));
    f.features = json_string_value(json_object_get(f.json, "features"));
    f.family = json_string_value(json_object_get(config, "model_type"));
    json_t *text = json_object_get(config, "text_config"); /* of a model of images */
    if (!text) text = json_object_get(config, "llm_config");
    f.vocab_size = (size_t)json_integer_value(json_object_get(text ? text : config, "vocab_size"));
    json_int_t real = json_integer_value(json_object_get(config, "unpadded_vocab_size"));
    if (real <= 0)
        real = json_integer_value(json_object_get(text ? text : config, "output_vocab_size"));
    if (real > 0 && (size_t)real < f.vocab_size) f.vocab_size = (size_t)real;
    if (strcmp(f.family, "idefics") == 0)
        f.vocab_size +=
            (size_t)json_integer_value(json_object_get(config, "additional_vocab_size"));
    f.context = (uint32_t)json_integer_value(json_object_get(f.json, "context"));
    f.ids = id_list(f.json, "ids", &f.n_ids);
    f.greedy = id_list(f.json, "greedy", &f.n_greedy);
    f.n_passes = json_array_size(passes);
    assert_in_range(f.n_passes, 1, FIXTURE_MAX_PASSES);
    size_t n = 0;
    for (size_t i = 0; i < f.n_passes; i++) {
        json_t *pass = json_array_get(passes, i);
        f.passes[i].start = (int32_t)json_integer_value(json_object_get(pass, "start"));
        f.passes[i].first = (size_t)json_integer_value(json_object_get(pass, "first"));
        f.passes[i].std = json_real_value(json_object_get(pass, "std"));
        n += (f.n_ids - f.passes[i].first) * f.vocab_size;
    }
    snprintf(path, sizeof path, FIXTURES "/%s.logits", name);
    f.logits = malloc((n + 1) * sizeof *f.logits);
    FILE *file = fopen(path, "rb");
    if (!f.logits || !file) fail_msg("%s cannot be read", path);
    for (size_t i = 0, at = 0; i < f.n_passes; i++) {
        json_t *unit = json_object_get(json_array_get(passes, i), "unit");
        size_t kept = (f.n_ids - f.passes[i].first) * f.vocab_size;
        read_logits(file, path, json_real_value(unit), f.logits + at, kept);
        f.passes[i].logits = f.logits + at;
        at += kept;
    }
    if (fgetc(file) != EOF) fail_msg("%s holds more than %zu numbers", path, n);
    fclose(file);
    return f;
}

void fixture_free(Fixture *f) {
    free(f->ids);
    free(f->greedy);
    free(f->logits);
    json_decref(f->json);
}

static int compare_names(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

char **fixture_names(void) {
    char **names = calloc(1024, sizeof *names);
    DIR *dir = opendir(FIXTURES);
    assert_non_null(names);
    assert_non_null(dir);
    size_t n = 0;
    for (struct dirent *e; n < 1023 && (e = readdir(dir));) {
        char *dot = strrchr(e->d_name, '.');
        if (!dot || strcmp(dot, ".json") != 0) continue;
        names[n] = strdup(e->d_name);
        assert_non_null(names[n]);
        names[n++][dot - e->d_name] = '\0';
    }
    closedir(dir);
    qsort(names, n, sizeof *names, compare_names);
    return names;
}

static size_t element_count(const json_t *shape) {
    size_t n = 1;
    for (size_t i = 0; i < json_array_size(shape); i++)
        n *= (size_t)json_integer_value(json_array_get(shape, i));
    return n;
}

/* Returns true for the tensors of MXFP4 codes and exponents and of BitNet's codes, whose recipes
 * give whole numbers below 256: they are stored as bytes. */
static bool is_bytes(const char *name, const json_t *recipe) {
    const char *end = strrchr(name, '_');
    return (end && (strcmp(end, "_blocks") == 0 || strcmp(end, "_scales") == 0)) ||
           (json_integer_value(json_array_get(recipe, 0)) == 8 &&
            json_number_value(json_array_get(recipe, 1)) == 128.0 &&
            json_number_value(json_array_get(recipe, 2)) == 127.5);
}

/* The number format of a tensor in model.safetensors: the recipe's sixth element, else F32 (or U8,
 * see above). */
static const char *dtype_of(const char *name, const json_t *recipe) {
    const char *given = json_string_value(json_array_get(recipe, 5));
    return given ? given : is_bytes(name, recipe) ? "U8" : "F32";
}

/* INT4 are codes of 4 bits, eight in each I32. */
static size_t values_bytes(const char *dtype, size_t n) {
    if (strcmp(dtype, "INT4") == 0) return n / 2;
    if (strcmp(dtype, "I64") == 0) return 8 * n;
    return strcmp(dtype, "F32") == 0 ? 4 * n : strcmp(dtype, "BF16") == 0 ? 2 * n : n;
}

/* The shape in the header; the caller owns it. */
static json_t *shape_of(const char *dtype, const json_t *recipe) {
    json_t *shape = json_deep_copy(json_array_get(recipe, 3));
    size_t last = json_array_size(shape) - 1;
    if (strcmp(dtype, "INT4") == 0)
        json_array_set_new(shape, last,
                           json_integer(json_integer_value(json_array_get(shape, last)) / 8));
    return shape;
}

/* Writes a value that the format, one of less than 32 bits, holds exactly. */
static void put_value(FILE *f, const char *dtype, float value) {
    uint32_t bits = float_bits(value);
    if (strcmp(dtype, "BF16") == 0) {
        fputc((int)(bits >> 16 & 255), f);
        fputc((int)(bits >> 24), f);
    } else if (strcmp(dtype, "F8_E4M3") == 0) { /* normal numbers alone */
        fputc((int)((bits >> 31) << 7 | ((bits >> 23 & 255) - 120) << 3 | (bits >> 20 & 7)), f);
    } else {
        fputc((int)value & 255, f);
    }
}

char *fixture_header(json_t *tensors) {
    json_t *header = json_object(), *recipe;
    const char *name;
    json_int_t at = 0;
    json_object_foreach(tensors, name, recipe) {
        json_t *shape = json_array_get(recipe, 3);
        const char *dtype = dtype_of(name, recipe);
        json_int_t bytes = (json_int_t)values_bytes(dtype, element_count(shape));
        bool is_int4 = strcmp(dtype, "INT4") == 0;
        json_object_set_new(header, name,
                            json_pack("{s:s, s:o, s:[I, I]}", "dtype", is_int4 ? "I32" : dtype,
                                      "shape", shape_of(dtype, recipe), "data_offsets", at,
                                      at + bytes));
        at += bytes;
    }
    char *text = json_dumps(header, JSON_COMPACT);
    assert_non_null(text);
    json_decref(header);
    return text;
}

void fixture_write_weights(json_t *tensors, const char *path) {
    char *header = fixture_header(tensors);
    uint64_t length = strlen(header);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    fwrite(&length, sizeof length, 1, f);
    fwrite(header, 1, length, f);
    free(header);
    const char *name;
    json_t *recipe;
    json_object_foreach(tensors, name, recipe) {
        size_t n = element_count(json_array_get(recipe, 3));
        float *values = malloc((n + 1) * sizeof *values);
        assert_non_null(values);
        const char *hashed = json_string_value(json_array_get(recipe, 4));
        hashed_tensor(hashed ? hashed : name,
                      (unsigned)json_integer_value(json_array_get(recipe, 0)),
                      json_number_value(json_array_get(recipe, 1)),
                      json_number_value(json_array_get(recipe, 2)), values, n);
        const char *dtype = dtype_of(name, recipe);
        if (strcmp(dtype, "F32") == 0) {
            fwrite(values, sizeof *values, n, f);
        } else if (strcmp(dtype, "I64") == 0) {
            for (size_t i = 0; i < n; i++) fwrite(&(int64_t){(int64_t)values[i]}, 8, 1, f);
        } else if (strcmp(dtype, "INT4") == 0) {
            for (size_t i = 0; i < n; i += 2) fputc((int)values[i] | (int)values[i + 1] << 4, f);
        } else {
            for (size_t i = 0; i < n; i++) put_value(f, dtype, values[i]);
        }
        free(values);
    }
    assert_int_equal(fclose(f), 0);
}

char *fixture_directory(void) {
    const char *base = getenv("TMPDIR");
    char *directory = fixture_path(base ? base : "/tmp", "verbatim-test-XXXXXX");
    assert_non_null(mkdtemp(directory));
    return directory;
}

char *fixture_source(const Fixture *f) {
    char *directory = fixture_directory();
    char *config = fixture_path(directory, "config.json");
    char *weights = fixture_path(directory, "model.safetensors");
    assert_int_equal(json_dump_file(json_object_get(f->json, "config"), config, JSON_INDENT(2)), 0);
    fixture_write_weights(json_object_get(f->json, "tensors"), weights);
    free(config);
    free(weights);
    return directory;
}

void fixture_remove_directory(char *directory) {
    DIR *dir = opendir(directory);
    for (struct dirent *e; dir && (e = readdir(dir));) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
        char *path = fixture_path(directory, e->d_name);
        unlink(path);
        free(path);
    }
    if (dir) closedir(dir);
    rmdir(directory);
    free(directory);
}
