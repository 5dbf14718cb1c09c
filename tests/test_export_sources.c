/* The readers of model sources: values are read unchanged, and malformed files are refused. The
 * small models are the seeds of the fuzz targets (tests/fixtures/make_seeds.py). */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/numbers.h"
#include "convert/convert.h"
#include "convert/quantize.h"
#include "fixture.h"
#include "families/reading/source_open.h"
#include "hashed_weights.h"
#include "core/modelfile.h"
#include "json/json_object.h"
#include "process.h"
#include "modes/proof/model_digest.h"

/* ---- Conversion in memory ---- */

static ModelFile *convert_to_memory(const Source *source, const char *type) {
    Error error = {{0}};
    ModelFile *file;
    const ConvertOptions options = {.type = type, .n_threads = 2};
    int fd = memfd_create("test", MFD_CLOEXEC);
    if (convert_parsed(source, &options, fd, &error) != STATUS_OK) fail_msg("%s", error.text);
    if (modelfile_open(&file, "converted", fd, &error) != STATUS_OK) fail_msg("%s", error.text);
    return file;
}

/* Converts `path` in memory; returns the error's text, or "" on success. */
static const char *converting(const char *path) {
    static Error error;
    error.text[0] = '\0';
    const ConvertOptions options = {.n_threads = 1};
    int fd = memfd_create("test", MFD_CLOEXEC);
    Status status = convert_source(path, &options, fd, &error);
    close(fd);
    assert_null(strchr(error.text, '\n'));
    assert_true(status == STATUS_OK || strlen(error.text) > 10);
    return error.text;
}

static void assert_refused(const char *path, const char *message) {
    const char *text = converting(path);
    if (!strstr(text, message)) fail_msg("'%s' does not say '%s'", text, message);
}

/* ---- Values ---- */

enum { ROWS = 37, COLS = 160 };

static uint16_t random_half(uint64_t hash) {
    /* Finite f16 values of both signs, including denormals. */
    return (uint16_t)((hash & 0x83FF) | (hash >> 16 & 15) << 10);
}

static double half_value(uint16_t h) {
    return numbers_half_to_float(h);
}

/* Decodes element i of a GGUF block by the format's definition. */
static double block_value(StoredType type, const uint8_t *b, size_t i) {
    uint16_t d, m;
    memcpy(&d, b, 2);
    memcpy(&m, b + 2, 2);
    uint32_t high;
    const uint8_t *nibbles = b + (type == STORED_Q4_0   ? 2
                                  : type == STORED_Q4_1 ? 4
                                  : type == STORED_Q5_0 ? 6
                                                        : 8);
    int low = i < 16 ? nibbles[i] & 15 : nibbles[i - 16] >> 4;
    switch (type) {
    case STORED_Q8_0:
        return half_value(d) * (int8_t)b[2 + i];
    case STORED_Q4_0:
        return half_value(d) * (low - 8);
    case STORED_Q4_1:
        return half_value(d) * low + half_value(m);
    case STORED_Q5_0:
        memcpy(&high, b + 2, 4);
        return half_value(d) * ((int)(low | (high >> i & 1) << 4) - 16);
    default:
        memcpy(&high, b + 4, 4);
        return half_value(d) * (int)(low | (high >> i & 1) << 4) + half_value(m);
    }
}

/* The form that the help of export shows. */
static void a_random_shape_needs_only_width_and_layers(void **state) {
    (void)state;
    static const struct {
        const char *shape;
        uint32_t n_heads, head_dim;
    } cases[] = {{"random:dim=1024,n_layers=16", 16, 64},
                 {"random:dim=4096,n_layers=2", 32, 128},
                 {"random:dim=48,n_layers=2", 3, 16},
                 {"random:dim=64,n_layers=2,head_dim=32", 2, 32}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Error error;
        Source *source;
        if (source_open(&source, cases[i].shape, NULL, &error) != STATUS_OK ||
            source_parse(source, &error) != STATUS_OK)
            fail_msg("%s", error.text);
        assert_int_equal(source->config.n_heads, cases[i].n_heads);
        assert_int_equal(source->config.head_dim, cases[i].head_dim);
        assert_true(source->config.vocab_size > 0);
        source_close(source);
    }
}

/* Makes a source with one matrix 'x' from these stored bytes. */
static Source *one_matrix(StoredType type, const void *bytes, size_t size) {
    Error error;
    Source *source;
    if (source_open(&source, "random:tiny", NULL, &error) != STATUS_OK) fail_msg("%s", error.text);
    assert_int_equal(source_parse(source, &error), STATUS_OK);
    int fd = memfd_create("test", MFD_CLOEXEC);
    assert_int_equal(write(fd, bytes, size), size);
    source->files = calloc(1, sizeof *source->files);
    assert_int_equal(input_adopt(source->files, "x", fd, &error), STATUS_OK);
    source->n_files = 1;
    SourceTensor *x = source_add(source, &error, "x");
    x->rows = x->stored_rows = ROWS;
    x->cols = x->stored_cols = COLS;
    x->stored = type;
    return source;
}

static void every_block_type_keeps_every_value(void **state) {
    (void)state;
    static const struct {
        StoredType stored;
        TensorType type;
    } cases[] = {{STORED_Q8_0, TENSOR_Q8},
                 {STORED_Q4_0, TENSOR_Q4},
                 {STORED_Q4_1, TENSOR_Q4_MIN},
                 {STORED_Q5_0, TENSOR_Q5_0},
                 {STORED_Q5_1, TENSOR_Q5_1}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        size_t block = stored_type_info(cases[k].stored)->block_bytes, n = ROWS * COLS / 32;
        uint8_t *bytes = malloc(n * block);
        for (size_t i = 0; i < n * block; i++) bytes[i] = (uint8_t)(hashed_element(k, i) >> 32);
        for (size_t i = 0; i < n; i++) {
            uint16_t half[2] = {random_half(hashed_element(90, i)),
                                random_half(hashed_element(91, i))};
            memcpy(bytes + i * block, half, sizeof half);
        }
        Source *source = one_matrix(cases[k].stored, bytes, n * block);
        ModelFile *file = convert_to_memory(source, NULL);
        const FileTensor *t = modelfile_find(file, "x");
        assert_int_equal(t->type, cases[k].type);
        Matrix m = modelfile_matrix(file, t, 0);
        float row[COLS];
        for (size_t r = 0; r < ROWS; r++) {
            matrix_row(&m, r, row);
            for (size_t c = 0; c < COLS; c++) {
                const uint8_t *b = bytes + (r * COLS + c) / 32 * block;
                if (row[c] != (float)block_value(cases[k].stored, b, c % 32))
                    fail_msg("%s: row %zu, element %zu", stored_type_info(cases[k].stored)->name, r,
                             c);
            }
        }
        modelfile_close(file);
        source_close(source);
        free(bytes);
    }
}

/* Writes the digest of a converted model of one matrix of these blocks. */
static void digest_of(StoredType type, const uint8_t *blocks, size_t bytes,
                      char digest[SHA256_HEX]) {
    const ModelDigestOptions how = {.n_threads = 1};
    Source *source = one_matrix(type, blocks, bytes);
    ModelFile *file = convert_to_memory(source, NULL);
    TensorDigest *tensors;
    Error error;
    assert_int_equal(model_digest_weights(file, &how, digest, &tensors, &error), STATUS_OK);
    free(tensors);
    modelfile_close(file);
    source_close(source);
}

/* Receipts of Q5_0 that was kept as q8 replay: the digest is that of the same weights in Q8_0. */
static void five_bits_have_the_digest_of_the_same_weights_in_eight(void **state) {
    (void)state;
    enum { BLOCKS = ROWS * COLS / 32 };
    static uint8_t five[BLOCKS][22], eight[BLOCKS][34];
    char digests[2][SHA256_HEX];
    for (size_t b = 0; b < BLOCKS; b++) {
        for (size_t i = 0; i < 22; i++) five[b][i] = (uint8_t)(hashed_element(3, 22 * b + i) >> 32);
        const uint16_t scale = random_half(hashed_element(4, b));
        memcpy(five[b], &scale, sizeof scale);
        memcpy(eight[b], &scale, sizeof scale);
        for (size_t i = 0; i < 32; i++) {
            int low = five[b][6 + i % 16] >> (i < 16 ? 0 : 4) & 15;
            int high = five[b][2 + i / 8] >> i % 8 & 1;
            eight[b][2 + i] = (uint8_t)((low | high << 4) - 16);
        }
    }
    digest_of(STORED_Q5_0, five[0], sizeof five, digests[0]);
    digest_of(STORED_Q8_0, eight[0], sizeof eight, digests[1]);
    assert_string_equal(digests[0], digests[1]);
}

/* places[i]: where element i of a tensor with these tiles is stored. */
static void list_places(const HeadTiles *t, size_t n, size_t *places) {
    size_t at = 0;
    while (at < (t->groups ? t->first : n)) places[at] = at, at++;
    for (size_t i = 0; i < t->per_group; i++)
        for (size_t group = 0; group < t->groups; group++)
            for (size_t k = 0; k < t->width; k++)
                places[at++] = t->first + (group * t->per_group + i) * t->width + k;
    assert_int_equal(at, n);
}

/* Blocks of columns are moved as they are; where a block holds parts of two heads, the values are.
 */
static void heads_in_another_order_keep_every_value(void **state) {
    (void)state;
    static const struct {
        HeadTiles rows, columns;
        TensorType type;
    } cases[] = {{{0}, {.first = 32, .groups = 2, .per_group = 2, .width = 32}, TENSOR_Q8},
                 {{.first = 1, .groups = 2, .per_group = 6, .width = 3}, {0}, TENSOR_Q8},
                 {{.groups = 1, .per_group = 37, .width = 1},
                  {.groups = 5, .per_group = 2, .width = 16},
                  TENSOR_F16},
                 {{.first = 1, .groups = 9, .per_group = 4, .width = 1},
                  {.first = 10, .groups = 5, .per_group = 10, .width = 3},
                  TENSOR_F16}};
    uint8_t bytes[ROWS * COLS / 32 * 34];
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (uint8_t)hashed_element(7, i);
    for (size_t i = 0; i < ROWS * COLS / 32; i++) {
        uint16_t half =
            numbers_float_to_half(0.25f * (float)(1 + i % 3)); /* times a code: exact in F16 */
        memcpy(bytes + i * 34, &half, sizeof half);
    }
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        size_t rows[ROWS], columns[COLS];
        float row[COLS];
        list_places(&cases[k].rows, ROWS, rows);
        list_places(&cases[k].columns, COLS, columns);
        Source *source = one_matrix(STORED_Q8_0, bytes, sizeof bytes);
        source->tensors[source->n_tensors - 1].map.tiles = cases[k].rows;
        source->tensors[source->n_tensors - 1].columns = cases[k].columns;
        ModelFile *file = convert_to_memory(source, NULL);
        const FileTensor *t = modelfile_find(file, "x");
        assert_int_equal(t->type, cases[k].type);
        Matrix m = modelfile_matrix(file, t, 0);
        for (size_t r = 0; r < ROWS; r++) {
            matrix_row(&m, r, row);
            for (size_t c = 0; c < COLS; c++) {
                size_t at = rows[r] * COLS + columns[c];
                const uint8_t *block = bytes + at / 32 * 34;
                if (row[c] != (float)block_value(STORED_Q8_0, block, at % 32))
                    fail_msg("case %zu: row %zu, element %zu", k, r, c);
            }
        }
        modelfile_close(file);
        source_close(source);
    }
}

static void sixteen_bit_floats_keep_every_value(void **state) {
    (void)state;
    uint16_t bytes[ROWS * COLS];
    for (int bf16 = 0; bf16 < 2; bf16++) {
        for (size_t i = 0; i < ROWS * COLS; i++) {
            bytes[i] = (uint16_t)hashed_element(5, i);
            if (bf16 && (bytes[i] & 0x7F80) == 0x7F80) bytes[i] ^= 0x80;
            if (!bf16 && (bytes[i] & 0x7C00) == 0x7C00) bytes[i] ^= 0x400;
        }
        Source *source = one_matrix(bf16 ? STORED_BF16 : STORED_F16, bytes, sizeof bytes);
        ModelFile *file = convert_to_memory(source, NULL);
        const FileTensor *t = modelfile_find(file, "x");
        assert_int_equal(t->type, bf16 ? TENSOR_BF16 : TENSOR_F16);
        Matrix m = modelfile_matrix(file, t, 0);
        float row[COLS];
        for (size_t r = 0; r < ROWS; r++) {
            matrix_row(&m, r, row);
            for (size_t c = 0; c < COLS; c++) {
                uint16_t h = bytes[r * COLS + c];
                float want = bf16 ? bfloat_to_float(h) : numbers_half_to_float(h);
                assert_memory_equal(&row[c], &want, sizeof want);
            }
        }
        modelfile_close(file);
        source_close(source);
    }
}

static void a_weight_that_is_no_number_is_refused_by_name(void **state) {
    (void)state;
    static const struct {
        StoredType type;
        uint8_t bytes[4];
        const char *message;
    } cases[] = {{STORED_F32, {0, 0, 0x80, 0xFF}, "'x': row 2 holds a weight"},
                 {STORED_F16, {1, 0x7C}, "'x': row 2 holds a weight"},
                 {STORED_BF16, {0x80, 0x7F}, "'x': row 2 holds a weight"},
                 {STORED_Q8_0, {0, 0x7C}, "'x': row 2 holds a scale"},
                 {STORED_Q4_1, {0, 0, 0, 0xFC}, "'x': row 2 holds a scale"}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        size_t row;
        assert_true(stored_bytes(cases[k].type, COLS, &row));
        uint8_t *bytes = calloc(ROWS, row);
        memcpy(bytes + 2 * row, cases[k].bytes, 4);
        Source *source = one_matrix(cases[k].type, bytes, ROWS * row);
        const ConvertOptions options = {.n_threads = 1};
        Error error;
        int fd = memfd_create("test", MFD_CLOEXEC);
        assert_int_equal(convert_parsed(source, &options, fd, &error), STATUS_FAILED);
        if (!strstr(error.text, cases[k].message)) fail_msg("%s", error.text);
        close(fd);
        source_close(source);
        free(bytes);
    }
}

/* ---- Quantizers ---- */

static double squared_error(TensorType type, const float *x, size_t n, bool plain) {
    uint8_t codes[4096];
    uint16_t scales[128], minima[128];
    size_t group = tensor_type_info(type)->group;
    double sum = 0.0;
    quantize_row(type, n, x, NULL, codes, scales, tensor_type_info(type)->has_min ? minima : NULL);
    for (size_t i = 0; i < n; i++) {
        double scale = numbers_half_to_float(scales[i / group]), value = 0.0;
        if (plain) { /* plain rounding: the largest weight of the group gets the largest code */
            double most = 0.0, end = type == TENSOR_Q4 ? 7.0 : 127.0;
            for (size_t k = i / group * group; k < i / group * group + group; k++)
                if (fabs((double)x[k]) > most) most = fabs((double)x[k]);
            value = nearbyint(x[i] / most * end) * most / end;
        } else if (type == TENSOR_Q4) {
            value = scale * (codes[i] - 8);
        } else if (type == TENSOR_Q4_MIN || type == TENSOR_Q8_MIN) {
            value = scale * codes[i] - numbers_half_to_float(minima[i / group]);
        } else {
            value = scale * (int8_t)codes[i];
        }
        sum += (x[i] - value) * (x[i] - value);
    }
    return sum;
}

static void searching_the_scale_beats_taking_the_extreme(void **state) {
    (void)state;
    float x[4096];
    for (size_t i = 0; i < 4096; i++) { /* a sum of 6 uniform numbers is nearly normal */
        x[i] = 0.0f;
        for (size_t k = 0; k < 6; k++) x[i] += hashed_weight(7, 6 * i + k, 20, 0.02, 0.0);
    }
    double q4 = squared_error(TENSOR_Q4, x, 4096, false);
    double plain4 = squared_error(TENSOR_Q4, x, 4096, true);
    double q4_min = squared_error(TENSOR_Q4_MIN, x, 4096, false);
    double q8 = squared_error(TENSOR_Q8, x, 4096, false);
    double plain8 = squared_error(TENSOR_Q8, x, 4096, true);
    print_message("squared error, searched to plain: q4 %.3f, q4_min %.3f, q8 %.3f\n", q4 / plain4,
                  q4_min / plain4, q8 / plain8);
    assert_true(q4 < 0.85 * plain4);
    assert_true(q4_min < 0.85 * plain4);
    assert_true(q8 < 1.02 * plain8);
}

static void strange_groups_are_quantized_to_numbers(void **state) {
    (void)state;
    static const float values[] = {0.0f, 1e-30f, -1e-40f, 3e38f, -3e38f, 1e-8f, 65504.0f, 1e6f};
    for (size_t k = 0; k < 8; k++) {
        for (uint32_t type = TENSOR_Q8; type <= TENSOR_Q8_MIN; type++) {
            float x[64];
            uint8_t codes[64];
            uint16_t scales[2], minima[2];
            for (size_t i = 0; i < 64; i++) x[i] = values[(i + k) % (k + 1)];
            quantize_row((TensorType)type, 64, x, NULL, codes, scales, minima);
            for (size_t i = 0; i < 64 / tensor_type_info(type)->group; i++)
                assert_true((scales[i] & 0x7C00) != 0x7C00);
        }
    }
}

/* ---- Malformed files ---- */

static const char *const whole_files[] = {"llama2c/legacy", "llama2c/v1", "llama2c/v2",
                                          "gguf/type0",     "gguf/type7", "gguf/type8",
                                          "gguf/vocabulary"};

static char *read_seed(const char *name, size_t *size) {
    char path[256];
    snprintf(path, sizeof path, "tests/seeds/%s", name);
    return file_read(path, size);
}

static void the_smallest_models_of_each_format_convert(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof whole_files / sizeof *whole_files; i++) {
        char path[256];
        snprintf(path, sizeof path, "tests/seeds/%s", whole_files[i]);
        assert_string_equal(converting(path), "");
    }
}

static void a_source_cut_anywhere_is_refused(void **state) {
    (void)state;
    char *directory = fixture_directory(), *path = fixture_path(directory, "cut");
    for (size_t i = 0; i < sizeof whole_files / sizeof *whole_files; i++) {
        size_t size;
        char *bytes = read_seed(whole_files[i], &size);
        for (size_t cut = 0; cut < size; cut += 64) {
            file_write(path, bytes, cut);
            if (strlen(converting(path)) == 0) fail_msg("%s cut at %zu", whole_files[i], cut);
        }
        file_write(path, bytes, size - 1);
        assert_true(strlen(converting(path)) > 0);
        free(bytes);
    }
    unlink(path);
    free(path);
    fixture_remove_directory(directory);
}

/* Writes the three files of a seed (a letter and the content each, see fuzz_safetensors.c) to a new
 * directory. The file whose letter is `cut_name` is truncated to `cut` bytes. */
static char *safetensors_directory(const char *seed, const char *cut_name, size_t cut) {
    static const char *const names[] = {"config.json", "generation_config.json",
                                        "model.safetensors"};
    char *directory = fixture_directory();
    size_t size;
    char *bytes = read_seed(seed, &size), *at = bytes;
    for (size_t i = 0; i < 3; i++) {
        char *end = i < 2 ? memchr(at, 0, size - (size_t)(at - bytes)) : bytes + size;
        size_t n = (size_t)(end - ++at);
        if (cut_name && strcmp(cut_name, names[i]) == 0 && cut < n) n = cut;
        char *path = fixture_path(directory, names[i]);
        file_write(path, at, n);
        free(path);
        at = end + 1;
    }
    free(bytes);
    return directory;
}

static void a_directory_with_a_cut_file_is_refused(void **state) {
    (void)state;
    static const struct {
        const char *name;
        size_t bytes;
    } files[] = {
        {"config.json", 400}, {"generation_config.json", 40}, {"model.safetensors", 13000}};
    char *whole = safetensors_directory("safetensors/bf16", NULL, 0);
    assert_string_equal(converting(whole), "");
    fixture_remove_directory(whole);
    for (size_t i = 0; i < 3; i++) {
        for (size_t cut = 0; cut < files[i].bytes; cut += 64) {
            char *directory = safetensors_directory("safetensors/bf16", files[i].name, cut);
            if (strlen(converting(directory)) == 0) fail_msg("%s cut at %zu", files[i].name, cut);
            fixture_remove_directory(directory);
        }
    }
}

static void keys_of_any_length_are_found(void **state) {
    (void)state;
    enum { LONGEST = 200 };
    char key[LONGEST + 1] = "", text[2 * LONGEST + 64], keys[LONGEST + 64];
    Error error;
    for (size_t n = 1; n <= LONGEST; n++) {
        json_t *json;
        key[n - 1] = (char)('a' + n % 26);
        /* a key that begins the same is another one */
        int length = snprintf(text, sizeof text, "{\"%sx\": 1, \"%s\": 2}", key, key);
        snprintf(keys, sizeof keys, "absent|%s|x", key);
        assert_int_equal(json_parse(&json, "test", text, (size_t)length, &error), STATUS_OK);
        const json_t *value = json_first(json, keys);
        if (json_integer_value(value) != 2) fail_msg("a key of %zu bytes", n);
        json_decref(json);
    }
}

/* What Python's json module writes and the standard does not have: words for numbers, and integers
 * of any length. transformers writes a tokenizer's missing limit as 10^30, in digits. */
static void numbers_as_python_writes_them_are_read(void **state) {
    (void)state;
    static const struct {
        const char *text;
        double value;
    } cases[] = {
        {"{\"n\": 1000000000000000019884624838656}", 1e30},
        {"{\"n\": -1000000000000000019884624838656, \"m\": [Infinity, NaN]}", -1e30},
        {"{\"s\": \"\\\": 99999999999999999999\", \"n\":99999999999999999999}", 1e20},
        {"{\"n\": 9223372036854775807, \"m\": 18446744073709551616}", 9223372036854775807.0},
        {"{\"m\": 18446744073709551616, \"n\": 42}", 42},
    };
    Error error = {{0}};
    json_t *json;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *text = cases[i].text;
        if (json_parse(&json, "test", text, strlen(text), &error) != STATUS_OK)
            fail_msg("%s", error.text);
        assert_true(json_number(json, "n", 0) == cases[i].value);
        json_decref(json);
    }
    char endless[600];
    memset(endless, '9', sizeof endless);
    memcpy(endless, "{\"n\":", 5);
    memcpy(endless + sizeof endless - 12, ",\"small\":-1}", 12);
    assert_int_equal(json_parse(&json, "test", endless, sizeof endless, &error), STATUS_OK);
    assert_true(json_is_array(json_value(json, "n"))); /* as Infinity: no number, and not absent */
    assert_true(json_number(json, "n", 7) == 7);
    assert_true(json_number(json, "small", 0) == -1);
    json_decref(json);
    assert_int_equal(json_parse(&json, "test", "{\"n\": 99999999999999999999,\n}", 29, &error),
                     STATUS_FAILED);
    assert_non_null(strstr(error.text, "line 2"));

    char *directory = safetensors_directory("safetensors/f32", NULL, 0);
    char *path = fixture_path(directory, "tokenizer_config.json");
    file_write(path, cases[0].text, strlen(cases[0].text));
    assert_string_equal(converting(directory), "");
    free(path);
    fixture_remove_directory(directory);
}

/* Replaces the n bytes `from` by `to` in a seed and expects the conversion to fail with this
 * error. */
static void assert_change_refused(const char *seed, const char *from, size_t n, const char *to,
                                  const char *message) {
    size_t size;
    char *directory = fixture_directory(), *path = fixture_path(directory, "changed");
    char *bytes = read_seed(seed, &size), *at = memmem(bytes, size, from, n);
    assert_non_null(at);
    memcpy(at, to, n);
    file_write(path, bytes, size);
    assert_refused(path, message);
    free(bytes);
    unlink(path);
    free(path);
    fixture_remove_directory(directory);
}

static void gguf_that_cannot_be_read_is_refused_by_name(void **state) {
    (void)state;
    assert_change_refused("gguf/type8", "GGUF\3\0\0\0", 8, "GGUF\0\0\0\3", "big-endian");
    assert_change_refused("gguf/type8", "GGUF\3\0\0\0", 8, "GGUF\1\0\0\0", "version 1 of GGUF");
    assert_change_refused("gguf/type8", "GGUF\3\0\0\0", 8, "GGUF\4\0\0\0", "version 4 of GGUF");
    assert_change_refused("gguf/type8", "llama\15", 5, "other", "architecture 'other'");
    /* In a tensor's entry, the name and the number of dimensions (2) are followed by the dimensions
     * (32, 32) and the number of the type. */
    char from[64], to[64];
    memcpy(from, "blk.0.ffn_up.weight\2\0\0\0 \0\0\0\0\0\0\0 \0\0\0\0\0\0\0\10", 40);
    memcpy(to, from, 40);
    to[39] = 12; /* blocks of 256 do not fit into rows of 32 */
    assert_change_refused("gguf/type8", from, 40, to, "'layers.0.w_up': 32 x 32 values of Q4_K");
    to[39] = 18;
    assert_change_refused("gguf/type8", from, 40, to, "w_up': 32 x 32 values of IQ3_XXS");
    to[39] = 15; /* llama.cpp's type for activations */
    assert_change_refused("gguf/type8", from, 40, to, "'blk.0.ffn_up.weight' is of type Q8_K");
    to[39] = 40;
    assert_change_refused("gguf/type8", from, 40, to, "w_up': 32 x 32 values of NVFP4");
    to[39] = 31; /* withdrawn */
    assert_change_refused("gguf/type8", from, 40, to, "ffn_up.weight' is of type number 31");
    to[39] = 99;
    assert_change_refused("gguf/type8", from, 40, to, "'blk.0.ffn_up.weight' is of type number 99");
    to[39] = 36; /* types of other programs */
    assert_change_refused("gguf/type8", from, 40, to,
                          "is of type I2_S, which this program cannot read; take a file of TQ2_0");
    to[39] = (char)139; /* ik_llama.cpp's, of which one has a scale for each row */
    assert_change_refused("gguf/type8", from, 40, to, "w_up': 32 x 32 values of IQ4_K");
    to[39] = (char)144;
    assert_change_refused("gguf/type8", from, 40, to, "its 1024 values of IQ4_KS do not lie");
    to[39] = (char)153;
    assert_change_refused("gguf/type8", from, 40, to,
                          "is of type IQ2_KT, which this program cannot read; take a file of other "
                          "types (Q4_K_M");
    to[39] = (char)142; /* ik_llama.cpp's, withdrawn */
    assert_change_refused("gguf/type8", from, 40, to, "ffn_up.weight' is of type number 142");
    to[39] = (char)212;
    assert_change_refused("gguf/type8", from, 40, to,
                          "is of type Q4_K_R4, which this program cannot read; take the file that "
                          "ik_llama.cpp repacked");
    assert_change_refused("gguf/type8", "blk.0.ffn_up", 12, "blk.0.ffn_xy",
                          "'blk.0.ffn_up.weight' is missing");
}

static void config_that_cannot_be_computed_is_refused_by_name(void **state) {
    (void)state;
    static const struct {
        const char *config, *message;
    } cases[] = {
        {"{\"model_type\":\"rwkv7\"}", "model_type 'rwkv7' is not known"},
        {"{}", "model_type is missing"},
        {"[1]", "not a JSON object"},
        {"{\"model_type\":\"llama\",\"quantization_config\":{\"quant_method\":\"gptq\"}}",
         "quantized by 'gptq'"},
        {"{\"model_type\":\"guide_transformer\"}", "vocab_size is missing"},
        /* transformers' default. */
        {"{\"model_type\":\"llama\"}",
         "tensor 'model.embed_tokens.weight' is 5 x 32, expected 32000 x 4096"},
        {"{\"model_type\":\"llama\",\"vocab_size\":1e99,\"hidden_size\":1}", "vocab_size is 1e+99"},
        {"{\"model_type\":\"llama\",\"vocab_size\":5,\"hidden_size\":32,\"intermediate_size\":32,"
         "\"num_hidden_layers\":1,\"num_attention_heads\":0}",
         "no attention heads"},
        {"{\"model_type\":\"llama\",\"vocab_size\":5,\"hidden_size\":32,\"intermediate_size\":32,"
         "\"num_hidden_layers\":1,\"num_attention_heads\":2,\"hidden_act\":\"mish\"}",
         "'mish'"},
        {"{\"model_type\":\"llama\",\"vocab_size\":6,\"hidden_size\":32,\"intermediate_size\":32,"
         "\"num_hidden_layers\":1,\"num_attention_heads\":2,\"num_key_value_heads\":1}",
         "'model.embed_tokens.weight' is 5 x 32, expected 6 x 32"},
        {"{\"model_type\":\"llama\",\"vocab_size\":5,\"hidden_size\":32,\"intermediate_size\":32,"
         "\"num_hidden_layers\":2,\"num_attention_heads\":2,\"num_key_value_heads\":1}",
         "'model.layers.1.input_layernorm.weight' is missing"},
        {"{\"model_type\":\"llama\",\"vocab_size\":5,\"hidden_size\":32,\"intermediate_size\":32,"
         "\"num_hidden_layers\":1,\"num_attention_heads\":2,\"num_key_value_heads\":1,"
         "\"tie_word_embeddings\":true,\"rope_scaling\":{\"rope_type\":\"spiral\"}}",
         "'spiral'"},
    };
    char *directory = safetensors_directory("safetensors/f32", NULL, 0);
    char *path = fixture_path(directory, "config.json");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        file_write(path, cases[i].config, strlen(cases[i].config));
        assert_refused(directory, cases[i].message);
    }
    free(path);
    fixture_remove_directory(directory);
}

/* Notes of a conversion, one after another. */
static void add_note(const char *line, void *context) {
    char *notes = context;
    size_t n = strlen(notes);
    snprintf(notes + n, 2000 - n, "%s\n", line);
}

/* f16 ends at 65504 (IEEE 754 binary16), and numbers below 65520 round to it; q8 ends at 127 times
 * the largest scale, 8.3e6, q4 at 8 times; bf16 ends at 0x1.FEp127. */
static void weights_beyond_the_range_of_their_type_are_counted_and_named(void **state) {
    (void)state;
    static const struct {
        float weight;
        const char *type, *note;
    } cases[] = {
        {65504.0f, "f16", ""},
        {65519.0f, "f16", ""},
        {65520.0f, "f16",
         "1 weight (65520) is beyond the range of its type and became smaller: "
         "1 in 'x' (f16)"},
        {-1e5f, "f16", "1 weight (100000) is"},
        {1e5f, "bf16", ""},
        {3.4e38f, "bf16", "1 weight (3.4e+38) is"},
        {0x1p-40f, "bf16_act", "bf16_act: weights of F32 are rounded to 8 significant bits"},
        {-0x1.FEp-41f, "bf16_act", "bits; 1 with |w| < 2^-40 became 0"},
        {1e5f, "q8", ""},
        {8e6f, "q8", ""},
        {1e8f, "q8", "1 weight (1e+08) is"},
        {4e5f, "q4", ""},
        {-1e7f, "q4", "1 weight (1e+07) is"},
        {1e6f, "q4_k", ""},
        {1e10f, "q4_k", "1 weight (1e+10) is"},
        {3.4e38f, "f32", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        static float values[ROWS * COLS];
        char notes[2000] = "";
        Error error = {{0}};
        ModelFile *file;
        for (size_t k = 0; k < ROWS * COLS; k++) values[k] = (float)(k % 17) / 16 - 0.5f;
        values[5 * COLS + 3] = cases[i].weight;
        Source *source = one_matrix(STORED_F32, values, sizeof values);
        const ConvertOptions options = {
            .type = cases[i].type, .n_threads = 2, .note = add_note, .progress_context = notes};
        int fd = memfd_create("test", MFD_CLOEXEC);
        if (convert_parsed(source, &options, fd, &error) != STATUS_OK) fail_msg("%s", error.text);
        if (modelfile_open(&file, "converted", fd, &error) != STATUS_OK) fail_msg("%s", error.text);
        if (!*cases[i].note != !*notes || !strstr(notes, cases[i].note))
            fail_msg("%g as %s: '%s'", (double)cases[i].weight, cases[i].type, notes);
        const Matrix x = modelfile_matrix(file, modelfile_find(file, "x"), 0);
        float row[COLS];
        matrix_row(&x, 5, row);
        assert_true(isfinite(row[3]));
        modelfile_close(file);
        source_close(source);
    }
}

/* Writes a file of the directory. */
static void put_file(const char *directory, const char *name, const char *text) {
    char *path = fixture_path(directory, name);
    file_write(path, text, strlen(text));
    free(path);
}

/* transformers 5.24 looks for what config.json's transformers_weights names, then for
 * model.safetensors, then for model.safetensors.index.json (_get_resolved_checkpoint_files in
 * modeling_utils.py). save_pretrained leaves an old index where it now writes one file. */
static void a_single_file_of_weights_counts_before_an_index(void **state) {
    (void)state;
    Fixture f = fixture_load("llama-narrow-tied");
    char *directory = fixture_source(&f);
    char *single = fixture_path(directory, "model.safetensors");
    char *shard = fixture_path(directory, "model-00001-of-00002.safetensors");
    char *target = fixture_path(directory, "model.bin");
    put_file(directory, "model.safetensors.index.json",
             "{\"weight_map\":{\"a\":\"model-00001-of-00002.safetensors\","
             "\"b\":\"model-00002-of-00002.safetensors\"}}");
    assert_string_equal(converting(directory), "");
    Process run = RUN("export", directory, target);
    PROCESS_SAYS(run, 0, "model.safetensors.index.json is ignored");
    put_file(directory, "model-00001-of-00002.safetensors", "an old file of weights");
    assert_string_equal(converting(directory), "");
    put_file(directory, "model.safetensors.index.json", "{"); /* of an upload that broke off */
    assert_string_equal(converting(directory), "");
    put_file(directory, "model.safetensors.index.json",
             "{\"weight_map\":{\"a\":\"model.safetensors\"}}"); /* says the same */
    run = RUN("export", directory, target, "-f");
    assert_int_equal(run.status, 0);
    assert_null(strstr(run.err, "ignored"));
    process_free(&run);

    assert_int_equal(rename(single, shard), 0);
    assert_refused(directory, "model.safetensors is missing, but the index names it");
    put_file(directory, "model.safetensors.index.json",
             "{\"weight_map\":{\"a\":\"model-00001-of-00002.safetensors\"}}");
    assert_string_equal(converting(directory), "");

    put_file(directory, "model.safetensors", "not the file that config.json names");
    json_object_set_new(json_object_get(f.json, "config"), "transformers_weights",
                        json_string("model-00001-of-00002.safetensors"));
    char *config = fixture_path(directory, "config.json");
    assert_int_equal(json_dump_file(json_object_get(f.json, "config"), config, 0), 0);
    assert_string_equal(converting(directory), "");
    put_file(directory, "other.safetensors.index.json",
             "{\"weight_map\":{\"a\":\"model-00001-of-00002.safetensors\"}}");
    json_object_set_new(json_object_get(f.json, "config"), "transformers_weights",
                        json_string("other.safetensors.index.json"));
    assert_int_equal(json_dump_file(json_object_get(f.json, "config"), config, 0), 0);
    assert_string_equal(converting(directory), "");
    json_object_set_new(json_object_get(f.json, "config"), "transformers_weights",
                        json_string("consolidated.safetensors"));
    assert_int_equal(json_dump_file(json_object_get(f.json, "config"), config, 0), 0);
    assert_refused(directory, "transformers_weights in config.json names it");
    free(config);
    free(single);
    free(shard);
    free(target);
    fixture_remove_directory(directory);
    fixture_free(&f);
}

static void files_of_other_kinds_are_refused_by_name(void **state) {
    (void)state;
    static const struct {
        const char *name, *bytes;
        size_t n;
        const char *message;
    } cases[] = {{"m.bin", "PK\3\4....", 8, "PyTorch pickle"},
                 {"m.pkl", "\x80\2......", 8, "pickle"},
                 {"m.ggml", "lmgg....", 8, "older than GGUF"},
                 {"m.h5", "\x89HDF....", 8, "HDF5"},
                 {"m.txt", "hello, this is a text and no model at all\n", 42, "not a model"},
                 {"empty", "", 0, "empty file"}};
    char *directory = fixture_directory();
    assert_refused("/no/such/model", "No such file");
    assert_refused(directory, "no model in this directory");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *path = fixture_path(directory, cases[i].name);
        file_write(path, cases[i].bytes, cases[i].n);
        assert_refused(path, cases[i].message);
        unlink(path);
        free(path);
    }
    char *config = fixture_path(directory, "config.json");
    char *weights = fixture_path(directory, "pytorch_model.bin");
    static const char llama[] =
        "{\"model_type\":\"llama\",\"vocab_size\":5,\"hidden_size\":32,\"intermediate_size\":32,"
        "\"num_hidden_layers\":1,\"num_attention_heads\":2}";
    file_write(config, llama, strlen(llama));
    assert_refused(directory, "model.safetensors is missing");
    file_write(weights, "PK", 2);
    assert_refused(directory, "pytorch_model.bin");
    /* The programs parse inside the sandbox, where the directory cannot be looked at again. */
    Process run = RUN("run", directory, "-i", "Hello");
    assert_int_equal(run.status, 1);
    assert_non_null(strstr(run.err, "pytorch_model.bin"));
    assert_non_null(strstr(run.err, "save_pretrained"));
    process_free(&run);
    free(config);
    free(weights);
    fixture_remove_directory(directory);
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_random_shape_needs_only_width_and_layers),
        cmocka_unit_test(every_block_type_keeps_every_value),
        cmocka_unit_test(five_bits_have_the_digest_of_the_same_weights_in_eight),
        cmocka_unit_test(heads_in_another_order_keep_every_value),
        cmocka_unit_test(sixteen_bit_floats_keep_every_value),
        cmocka_unit_test(a_weight_that_is_no_number_is_refused_by_name),
        cmocka_unit_test(searching_the_scale_beats_taking_the_extreme),
        cmocka_unit_test(strange_groups_are_quantized_to_numbers),
        cmocka_unit_test(the_smallest_models_of_each_format_convert),
        cmocka_unit_test(a_source_cut_anywhere_is_refused),
        cmocka_unit_test(a_directory_with_a_cut_file_is_refused),
        cmocka_unit_test(numbers_as_python_writes_them_are_read),
        cmocka_unit_test(keys_of_any_length_are_found),
        cmocka_unit_test(gguf_that_cannot_be_read_is_refused_by_name),
        cmocka_unit_test(config_that_cannot_be_computed_is_refused_by_name),
        cmocka_unit_test(weights_beyond_the_range_of_their_type_are_counted_and_named),
        cmocka_unit_test(a_single_file_of_weights_counts_before_an_index),
        cmocka_unit_test(files_of_other_kinds_are_refused_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
