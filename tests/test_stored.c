/* Weights decoded from GGUF blocks have exactly the values that the gguf package computes, directly
 * and after repacking into panels. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "convert/quantize.h"
#include "convert/quantize_superblocks.h"
#include "formats/stored/stored.h"
#include "formats/stored/stored_k.h"
#include "kernels/panel_pack.h"
#include "tests/process.h"

typedef struct Case {
    char name[17];
    uint32_t number, n_values, n_bytes;
    uint8_t *blocks;
    float *values;
} Case;

static bool read_case(FILE *file, Case *c) {
    memset(c, 0, sizeof *c);
    if (fread(c->name, 1, 16, file) != 16) return false;
    uint32_t numbers[3];
    assert_int_equal(fread(numbers, 4, 3, file), 3);
    c->number = numbers[0], c->n_values = numbers[1], c->n_bytes = numbers[2];
    c->blocks = malloc(c->n_bytes);
    c->values = malloc(c->n_values * sizeof *c->values);
    assert_int_equal(fread(c->blocks, 1, c->n_bytes, file), c->n_bytes);
    assert_int_equal(fread(c->values, sizeof *c->values, c->n_values, file), c->n_values);
    return true;
}

static StoredType type_of(const char *name) {
    for (StoredType t = STORED_F32; t < STORED_TYPES; t++)
        if (strcmp(stored_type_info(t)->name, name) == 0) return t;
    fail_msg("no stored type is called %s", name);
    return STORED_TYPES;
}

/* Calls `check` for each type in the fixture file. */
static void each_case(void (*check)(StoredType type, const Case *c)) {
    FILE *file = fopen("tests/fixtures/gguf_blocks.bin", "rb");
    assert_non_null(file);
    Case c;
    size_t n = 0;
    for (; read_case(file, &c); n++) {
        check(type_of(c.name), &c);
        free(c.blocks);
        free(c.values);
    }
    assert_int_equal(n, 9);
    fclose(file);
}

static void check_floats(StoredType type, const Case *c) {
    size_t bytes;
    assert_true(stored_bytes(type, c->n_values, &bytes));
    assert_int_equal(bytes, c->n_bytes);
    float *values = malloc(c->n_values * sizeof *values);
    stored_to_floats(type, c->blocks, c->n_values, values);
    for (size_t i = 0; i < c->n_values; i++)
        if (values[i] != c->values[i])
            fail_msg("%s: value %zu is %a, not %a", c->name, i, (double)values[i],
                     (double)c->values[i]);
    free(values);
}
static void values_are_those_of_the_gguf_package(void **state) {
    (void)state;
    each_case(check_floats);
}

/* Allocates SuperblockCodes for 16 rows; codes_free. */
static SuperblockCodes codes_new(size_t padded, size_t groups) {
    return (SuperblockCodes){calloc(PANEL_ROWS, padded), calloc(PANEL_ROWS * groups, 2),
                             calloc(PANEL_ROWS * groups, 2), calloc(PANEL_ROWS, groups),
                             calloc(PANEL_ROWS, groups)};
}

static SuperblockCodes row_of(const SuperblockCodes *c, size_t padded, size_t groups, size_t r) {
    return (SuperblockCodes){c->codes + r * padded, c->scales + r * groups, c->minima + r * groups,
                             c->sub_scales + r * groups, c->sub_minima + r * groups};
}

static void codes_free(SuperblockCodes *c) {
    free(c->codes);
    free(c->scales);
    free(c->minima);
    free(c->sub_scales);
    free(c->sub_minima);
}

/* Packs the blocks as rows of `cols` values into one panel and compares what matrix_row reads
 * back. */
static void check_panel(StoredType stored, const Case *c, size_t cols) {
    const StoredTypeInfo *info = stored_type_info(stored);
    TensorType type = info->lossless;
    size_t groups = cols / type_group(type), rows = c->n_values / cols, bytes, row_bytes;
    SuperblockCodes codes = codes_new(cols, groups);
    assert_true(stored_bytes(stored, cols, &row_bytes));
    for (size_t r = 0; r < rows && r < PANEL_ROWS; r++) {
        SuperblockCodes row = row_of(&codes, cols, groups, r);
        stored_to_superblocks(stored, type, c->blocks + r * row_bytes, cols, &row);
    }
    assert_true(tensor_panel_bytes(type, cols, &bytes));
    uint8_t *panel = aligned_alloc(64, bytes);
    superblocks_pack(type, cols, &codes, panel);
    assert_int_equal(superblocks_bad_row(type, cols, panel), PANEL_ROWS);
    Matrix w = {type, rows, cols, bytes, panel};
    float *row = malloc(cols * sizeof *row);
    for (size_t r = 0; r < rows && r < PANEL_ROWS; r++) {
        matrix_row(&w, r, row);
        for (size_t i = 0; i < cols; i++)
            if (row[i] != c->values[r * cols + i])
                fail_msg("%s: row %zu, input %zu of a panel is %a, not %a", c->name, r, i,
                         (double)row[i], (double)c->values[r * cols + i]);
    }
    free(row);
    free(panel);
    codes_free(&codes);
}

static void check_panels(StoredType type, const Case *c) {
    const StoredTypeInfo *info = stored_type_info(type);
    if (!info->same_blocks || info->approximate) return;
    check_panel(type, c, 256);
    check_panel(type, c, 512);
    if (info->block == 32) check_panel(type, c, 128);
}
static void panels_hold_every_weight_of_the_blocks_unchanged(void **state) {
    (void)state;
    each_case(check_panels);
}

/* Promise: for matrices of whole blocks of 256, panels are at most 3% larger than the source. */
static void panels_are_hardly_larger_than_the_blocks(void **state) {
    (void)state;
    static const StoredType types[] = {STORED_Q4_K,   STORED_Q5_K,  STORED_Q6_K, STORED_Q2_K,
                                       STORED_IQ4_NL, STORED_MXFP4, STORED_Q3_K, STORED_IQ4_XS,
                                       STORED_Q2_0,   STORED_Q1_0,  STORED_NVFP4};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        for (size_t cols = 256; cols < 10000; cols += 256) {
            size_t ours, source;
            assert_true(tensor_matrix_bytes(stored_type_info(types[i])->lossless, 64, cols, &ours));
            assert_true(stored_bytes(types[i], 64 * cols, &source));
            assert_true((double)ours <= 1.03 * (double)source);
            /* A superblock of TQ2_0 ends in half a line of 64 bytes, which the next one begins
             * with. */
            if (i > 0) continue;
            assert_true(tensor_matrix_bytes(TENSOR_TQ2_0, 64, cols, &ours));
            assert_true(stored_bytes(STORED_TQ2_0, 64 * cols, &source));
            assert_int_equal(ours, source + cols / 256 % 2 * 4 * 32);
        }
}

/* The scale at `at` is one of row 5: infinities, NaN and what makes weights infinite are found. */
static void check_float_scales(TensorType type, size_t cols, const SuperblockCodes *codes,
                               size_t at, uint8_t *panel) {
    static const struct {
        float scale;
        bool is_good;
    } cases[] = {{INFINITY, false},   {-INFINITY, false}, {NAN, false},     {0x1p97f, false},
                 {-0x1.8p96f, false}, {0x1p96f, true},    {-0x1p96f, true}, {0x1p-149f, true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        codes->scales[at] = (uint16_t)float_bits(cases[i].scale);
        codes->minima[at] = (uint16_t)(float_bits(cases[i].scale) >> 16);
        superblocks_pack(type, cols, codes, panel);
        assert_int_equal(superblocks_bad_row(type, cols, panel), cases[i].is_good ? PANEL_ROWS : 5);
    }
}

static void a_scale_that_is_not_finite_is_found(void **state) {
    (void)state;
    for (uint32_t t = TENSOR_F32; t < TENSOR_TYPES; t++) {
        TensorType type = (TensorType)t;
        if (!is_superblock_type(type)) continue;
        size_t cols = 300, padded = tensor_padded_cols(type, cols), bytes;
        size_t groups = padded / type_group(type);
        SuperblockCodes codes = codes_new(padded, groups);
        assert_true(tensor_panel_bytes(type, cols, &bytes));
        uint8_t *panel = aligned_alloc(64, bytes);
        superblocks_pack(type, cols, &codes, panel);
        assert_int_equal(superblocks_bad_row(type, cols, panel), PANEL_ROWS);
        /* Spoil a scale, then a minimum, of row 5 in the second superblock. */
        bool by_group = !superblock_has_parts(type);
        size_t at = 5 * groups + (by_group ? 8 : 1);
        if (superblock_scale_is_float(type)) {
            check_float_scales(type, cols, &codes, at, panel);
        } else {
            codes.scales[at] = 0x7C00;
            if (superblock_scales(type) == SCALES_POWERS) codes.sub_scales[at] = 255;
            superblocks_pack(type, cols, &codes, panel);
            assert_int_equal(superblocks_bad_row(type, cols, panel), 5);
            codes.scales[at] = 0;
            codes.minima[at] = 0x7E00;
            codes.sub_scales[at] = 0;
            superblocks_pack(type, cols, &codes, panel);
            size_t bad = type_has_minima(type) ? 5 : PANEL_ROWS;
            assert_int_equal(superblocks_bad_row(type, cols, panel), bad);
        }
        free(panel);
        codes_free(&codes);
    }
}

/* The upper byte of the scale of a block, which a minimum follows. */
static size_t upper_byte(StoredType type) {
    static const uint8_t upper_bytes[STORED_TYPES] = {
        [STORED_IQ1_M] = 55, [STORED_TQ1_0] = 53,  [STORED_TQ2_0] = 65,
        [STORED_Q6_K] = 209, [STORED_Q3_K] = 109,  [STORED_Q2_K] = 81,
        [STORED_IQ4_KS] = 3, [STORED_IQ4_KSS] = 3, [STORED_IQ5_KS] = 3};
    return upper_bytes[type] ? upper_bytes[type] : 1;
}

/* Makes the f16 scale (and minimum) of a block finite, as make_gguf_blocks.py does: clears a bit of
 * the exponent in its upper byte. */
static void make_finite(StoredType type, uint8_t *block) {
    const size_t at = upper_byte(type);
    if (type == STORED_NVFP4) return;
    block[type == STORED_MXFP4 ? 0 : at] &= type == STORED_MXFP4 ? 0x7F : 0xBF;
    if (weight_types[stored_type_info(type)->lossless].has_min) block[at + 2] &= 0xBF;
}

static uint8_t *generated_blocks(StoredType type, uint64_t state, size_t n_values) {
    size_t bytes, block_bytes = stored_type_info(type)->block_bytes;
    assert_true(stored_bytes(type, n_values, &bytes));
    uint8_t *blocks = malloc(bytes);
    assert_non_null(blocks);
    for (size_t i = 0; i < bytes; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        blocks[i] = (uint8_t)(state >> 56);
    }
    for (size_t i = 0; i < bytes; i += block_bytes) make_finite(type, blocks + i);
    return blocks;
}

/* The value of an NVFP4 weight beside a factor: as NVIDIA's ModelOpt multiplies, factor times
 * scale, rounded to float32, times the 4-bit float. */
static float value_of_nvfp4(const uint8_t *block, size_t i, float factor) {
    static const float floats[8] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
    const uint8_t scale = block[i / 16] & 127;
    const int code = block[4 + i / 16 * 8 + i % 8] >> (i % 16 < 8 ? 0 : 4) & 15;
    const float wide = block[i / 16] == 127 ? 0.0f
                       : scale < 8          ? ldexpf((float)scale, -9)
                                            : ldexpf((float)(8 + scale % 8), scale / 8 - 10);
    const float product = factor * wide;
    return product * (code < 8 ? floats[code] : -floats[code - 8]);
}

static void nvfp4_beside_a_factor_is_held_without_loss(void **state) {
    (void)state;
    enum { COLS = 320, ROW_BYTES = COLS / 64 * 36, GROUPS = COLS / 16 };
    static const float factors[] = {1.0f, 1.1f, -3.7e-5f, 2.3e9f, 1e-30f};
    float values[COLS], row[COLS];
    uint8_t *blocks = generated_blocks(STORED_NVFP4, 40, PANEL_ROWS * COLS);
    for (size_t f = 0; f < sizeof factors / sizeof *factors; f++) {
        size_t bytes;
        SuperblockCodes codes = codes_new(COLS, GROUPS);
        assert_true(tensor_panel_bytes(TENSOR_NVFP4_T, COLS, &bytes));
        uint8_t *panel = aligned_alloc(64, bytes);
        for (size_t r = 0; r < PANEL_ROWS; r++) {
            SuperblockCodes to = row_of(&codes, COLS, GROUPS, r);
            stored_to_superblocks(STORED_NVFP4, TENSOR_NVFP4_T, blocks + r * ROW_BYTES, COLS, &to);
        }
        for (size_t i = 0; i < PANEL_ROWS * GROUPS; i++) {
            codes.scales[i] = (uint16_t)float_bits(factors[f]);
            codes.minima[i] = (uint16_t)(float_bits(factors[f]) >> 16);
        }
        superblocks_pack(TENSOR_NVFP4_T, COLS, &codes, panel);
        const Matrix w = {TENSOR_NVFP4_T, PANEL_ROWS, COLS, bytes, panel};
        for (size_t r = 0; r < PANEL_ROWS; r++) {
            const uint8_t *blocks_of_row = blocks + r * ROW_BYTES;
            matrix_row(&w, r, row);
            stored_k_nvfp4_to_floats(blocks_of_row, COLS, factors[f], values);
            for (size_t i = 0; i < COLS; i++) {
                float value = value_of_nvfp4(blocks_of_row + i / 64 * 36, i % 64, factors[f]);
                assert_true(values[i] == value && row[i] == value);
            }
        }
        free(panel);
        codes_free(&codes);
    }
    free(blocks);
}

/* ---- Types of 1 to 3 bits, and those of one scale ---- */

/* Calls `check` for each type in the file of hashes, with random blocks of the type and their
 * expected hash. */
static void each_hashed(void (*check)(StoredType type, const uint8_t *blocks, size_t n,
                                      uint64_t hash)) {
    char name[32];
    unsigned number;
    size_t n_values, n = 0;
    unsigned long long hash;
    FILE *file = fopen("tests/fixtures/gguf_block_hashes.txt", "r");
    assert_non_null(file);
    for (; fscanf(file, "%31s %u %zu %llx", name, &number, &n_values, &hash) == 4; n++) {
        StoredType type = type_of(name);
        uint8_t *blocks = generated_blocks(type, number, n_values);
        check(type, blocks, n_values, hash);
        free(blocks);
    }
    assert_int_equal(n, 27);
    fclose(file);
}

static void check_hash(StoredType type, const uint8_t *blocks, size_t n, uint64_t expected) {
    float *values = malloc(n * sizeof *values);
    uint64_t hash = 14695981039346656037u;
    stored_to_floats(type, blocks, n, values);
    for (size_t i = 0; i < n; i++) hash = (hash ^ float_bits(values[i])) * 1099511628211u;
    if (hash != expected) fail_msg("%s: other values", stored_type_info(type)->name);
    free(values);
}
static void values_of_few_bits_are_those_of_the_gguf_package(void **state) {
    (void)state;
    each_hashed(check_hash);
}

/* Repacks rows of blocks into a panel of superblocks and returns it; of codes, where the type is
 * one.
 */
static uint8_t *panel_of_blocks(StoredType type, TensorType to, const uint8_t *blocks,
                                size_t cols) {
    const StoredTypeInfo *info = stored_type_info(type);
    const size_t groups = cols / type_group(to);
    const size_t row_bytes = cols / info->block * info->block_bytes;
    size_t bytes;
    assert_true(tensor_panel_bytes(to, cols, &bytes));
    uint8_t *panel = aligned_alloc(64, bytes);
    SuperblockCodes codes = codes_new(cols, groups);
    if (is_superblock_type(to)) {
        for (size_t r = 0; r < PANEL_ROWS; r++) {
            SuperblockCodes row = row_of(&codes, cols, groups, r);
            stored_to_superblocks(type, to, blocks + r * row_bytes, cols, &row);
        }
        superblocks_pack(to, cols, &codes, panel);
    } else {
        uint16_t *minima = type_has_minima(to) ? codes.minima : NULL;
        stored_to_codes(type, blocks, PANEL_ROWS * cols, codes.codes, codes.scales, minima);
        panel_pack_codes(to, cols, codes.codes, codes.scales, minima, panel);
    }
    codes_free(&codes);
    return panel;
}

/* Panels of type `to` have the values of the blocks. */
static void check_values(StoredType type, TensorType to, const uint8_t *blocks, size_t n) {
    enum { COLS = 512 };
    const StoredTypeInfo *info = stored_type_info(type);
    const size_t row_bytes = COLS / info->block * info->block_bytes;
    float values[COLS], row[COLS];
    for (size_t at = 0; at + PANEL_ROWS * COLS <= n;
         at += PANEL_ROWS * COLS, blocks += PANEL_ROWS * row_bytes) {
        uint8_t *panel = panel_of_blocks(type, to, blocks, COLS);
        const Matrix w = {to, PANEL_ROWS, COLS, 0, panel};
        for (size_t r = 0; r < PANEL_ROWS; r++) {
            matrix_row(&w, r, row);
            stored_to_floats(type, blocks + r * row_bytes, COLS, values);
            for (size_t i = 0; i < COLS; i++)
                if (row[i] != values[i])
                    fail_msg("%s: row %zu, input %zu of a panel is %a, not %a", info->name, r, i,
                             (double)row[i], (double)values[i]);
        }
        free(panel);
    }
}
static void check_few_bits(StoredType type, const uint8_t *blocks, size_t n, uint64_t hash) {
    const StoredTypeInfo *info = stored_type_info(type);
    (void)hash;
    assert_true(info->same_blocks);
    assert_false(info->approximate);
    check_values(type, info->lossless, blocks, n);
    if (info->wide != TENSOR_VECTOR) check_values(type, info->wide, blocks, n);
}
static void panels_hold_every_weight_of_few_bits_unchanged(void **state) {
    (void)state;
    each_hashed(check_few_bits);
}

/* Gives a block the scale (or, with `minimum`, the minimum) of these float16 bits; false where the
 * type has none: MXFP4 has exponents, of which 255 is NaN, and all scales of NVFP4 are finite. */
static bool spoil_block(StoredType type, bool minimum, uint16_t bits, uint8_t *block) {
    if (type == STORED_NVFP4 ||
        (minimum && !weight_types[stored_type_info(type)->lossless].has_min))
        return false;
    if (type == STORED_MXFP4) {
        block[0] = 255;
    } else if (type == STORED_IQ1_M) { /* four bits each in the upper halves of four numbers */
        for (int i = 0; i < 4; i++)
            block[49 + 2 * i] = (uint8_t)((block[49 + 2 * i] & 15) | (bits >> 4 * i & 15) << 4);
    } else {
        memcpy(block + upper_byte(type) - 1 + 2 * minimum, &bits, sizeof bits);
    }
    return true;
}

/* An infinity or a NaN in a block of a file is found in the row of the panel that it becomes, and
 * part of a block is not a size of a row. */
static void blocks_with_scales_that_are_no_numbers_are_found(void **state) {
    (void)state;
    enum { COLS = 512 };
    static const uint16_t bad[] = {0x7C00, 0xFC00, 0x7E00, 0x7C01};
    for (StoredType type = STORED_F32; type < STORED_TYPES; type++) {
        const StoredTypeInfo *info = stored_type_info(type);
        size_t bytes;
        if (info->block == 1) continue;
        assert_false(stored_bytes(type, COLS + 1, &bytes));
        assert_false(stored_bytes(type, info->block / 2, &bytes));
        assert_false(stored_file_bytes(type, COLS + info->block / 2, COLS, &bytes));
        if (info->row_scale) {
            assert_false(stored_file_bytes(type, COLS, COLS + info->block, &bytes));
            assert_false(stored_file_bytes(type, COLS, 0, &bytes));
        }
        for (size_t i = 0; i < 2 * sizeof bad / sizeof *bad; i++) {
            uint8_t *blocks = generated_blocks(type, 7, PANEL_ROWS * COLS);
            uint8_t *of_row = blocks + 5 * COLS / info->block * info->block_bytes;
            if (spoil_block(type, i % 2, bad[i / 2], of_row + info->block_bytes)) {
                uint8_t *panel = panel_of_blocks(type, info->lossless, blocks, COLS);
                assert_true(tensor_panel_bytes(info->lossless, COLS, &bytes));
                const Matrix w = {info->lossless, PANEL_ROWS, COLS, bytes, panel};
                if (panel_bad_row(&w, 0) != 5)
                    fail_msg("%s: the scale %x is not found", info->name, bad[i / 2]);
                free(panel);
            }
            free(blocks);
        }
    }
}

/* ---- The table of docs/quantization.md ---- */

/* The largest difference between the values of the blocks, which the tests above compare with those
 * of the gguf package, and the values of the panel that they become. */
static double largest_difference(StoredType type, size_t cols) {
    enum { MOST_COLS = 1024 };
    const StoredTypeInfo *info = stored_type_info(type);
    const size_t row_bytes = cols / info->block * info->block_bytes;
    float values[MOST_COLS], row[MOST_COLS];
    double largest = 0;
    uint8_t *blocks = generated_blocks(type, 1, PANEL_ROWS * cols);
    uint8_t *panel = panel_of_blocks(type, info->lossless, blocks, cols);
    size_t bytes;
    assert_true(tensor_panel_bytes(info->lossless, cols, &bytes));
    const Matrix w = {info->lossless, PANEL_ROWS, cols, bytes, panel};
    for (size_t r = 0; r < PANEL_ROWS; r++) {
        matrix_row(&w, r, row);
        stored_to_floats(type, blocks + r * row_bytes, cols, values);
        for (size_t i = 0; i < cols; i++) {
            /* Not > : a difference that is not a number counts. */
            const double difference = fabs((double)row[i] - (double)values[i]);
            if (!(difference <= largest)) largest = difference;
        }
    }
    free(panel);
    free(blocks);
    return largest;
}

/* Bytes of a matrix of `cols` inputs, 64 outputs, here and in a GGUF file. */
static void sizes_of(StoredType type, size_t cols, size_t *here, size_t *file) {
    enum { ROWS = 64 };
    assert_true(stored_file_bytes(type, ROWS * cols, cols, file));
    assert_true(tensor_matrix_bytes(stored_type_info(type)->lossless, ROWS, cols, here));
}

/* The size of a matrix here over its size in a GGUF file. */
static double growth(StoredType type, size_t cols) {
    size_t here, file;
    sizes_of(type, cols, &here, &file);
    return (double)here / (double)file;
}

/* Widths of small models that are no multiple of 256 (SmolLM2, Gemma 3 270M, Qwen 2.5 0.5B). */
static const size_t odd_widths[] = {576, 640, 896};
enum { ODD_WIDTHS = sizeof odd_widths / sizeof *odd_widths };

/* The largest growth at these widths; 0 for types whose blocks none of them is a multiple of. */
static double odd_growth(StoredType type) {
    double most = 0;
    for (size_t i = 0; i < ODD_WIDTHS; i++)
        if (odd_widths[i] % stored_type_info(type)->block == 0)
            most = fmax(most, growth(type, odd_widths[i]));
    return most;
}

/* The block types of GGUF, in the order of bits, then those of ik_llama.cpp. */
static const StoredType block_types[] = {
    STORED_Q8_0,    STORED_Q6_K,  STORED_Q5_1,    STORED_Q5_0,   STORED_Q5_K,  STORED_Q4_1,
    STORED_Q4_0,    STORED_Q4_K,  STORED_IQ4_NL,  STORED_NVFP4,  STORED_MXFP4, STORED_IQ4_XS,
    STORED_Q3_K,    STORED_IQ3_S, STORED_IQ3_XXS, STORED_Q2_K,   STORED_IQ2_S, STORED_IQ2_XS,
    STORED_IQ2_XXS, STORED_Q2_0,  STORED_TQ2_0,   STORED_TQ1_0,  STORED_IQ1_M, STORED_IQ1_S,
    STORED_Q1_0,    STORED_IQ6_K, STORED_IQ5_K,   STORED_IQ5_KS, STORED_IQ4_K, STORED_IQ4_KS,
    STORED_IQ4_KSS, STORED_IQ3_K, STORED_IQ3_KS,  STORED_IQ2_KL, STORED_IQ2_K, STORED_IQ2_KS};
enum { BLOCK_TYPES = sizeof block_types / sizeof *block_types };

/* Writes the table, a line for each of block_types. */
static void write_table(FILE *out) {
    enum { COLS = 4096 };
    fprintf(
        out,
        "| GGUF | bits a weight | here | bits a weight | larger by | in rows of 576, 640, 896 | "
        "largest difference |\n"
        "| --- | ---: | --- | ---: | ---: | ---: | ---: |\n");
    for (size_t i = 0; i < BLOCK_TYPES; i++) {
        const StoredTypeInfo *info = stored_type_info(block_types[i]);
        const double odd = odd_growth(block_types[i]);
        size_t here, file;
        char odd_text[32] = "";
        sizes_of(block_types[i], COLS, &here, &file);
        if (odd > 0) snprintf(odd_text, sizeof odd_text, "%.1f%% ", 100 * (odd - 1));
        fprintf(out, "| %s | %.4g | `%s` | %.4g | %.1f%% | %s| %g |\n", info->name,
                8.0 * (double)file / (64 * COLS), tensor_type_info(info->lossless)->name,
                8.0 * (double)here / (64 * COLS), 100 * ((double)here / (double)file - 1), odd_text,
                largest_difference(block_types[i], 1024));
    }
}

static void every_type_of_gguf_keeps_its_values_as_the_docs_say(void **state) {
    (void)state;
    char *table = NULL;
    size_t length;
    FILE *memory = open_memstream(&table, &length);
    assert_non_null(memory);
    write_table(memory);
    fclose(memory);
    char *page = file_read("docs/quantization.md", &length);
    if (!strstr(page, table))
        fail_msg("docs/quantization.md has another table than scripts/gguf-types:\n%s", table);
    free(page);
    free(table);
}

/* What a type of GGUF may grow by, where it is more than 3%: the last superblock of a row has the
 * header of a whole one. */
static double growth_allowed(StoredType type, size_t cols) {
    static const struct {
        StoredType type;
        double whole, odd; /* in rows of whole superblocks, in others */
    } larger[] = {{STORED_TQ1_0, 1.26, 0},
                  {STORED_IQ4_KSS, 1.10, 0},
                  {STORED_IQ3_KS, 1.05, 0},
                  {STORED_IQ2_KL, 1.25, 0},
                  {STORED_IQ2_K, 1.06, 0},
                  {STORED_IQ2_KS, 1.09, 0},
                  {STORED_IQ4_NL, 0, 1.038},
                  {STORED_Q2_0, 0, 1.038},
                  {STORED_NVFP4, 0, 1.075},
                  {STORED_TQ2_0, 1.031, 0},
                  /* A row of 256 ends in half a line of 64 bytes. */
                  {STORED_IQ2_XXS, 1.031, 0},
                  {STORED_IQ1_S, 1.041, 0}};
    const double most = 1.03;
    for (size_t i = 0; i < sizeof larger / sizeof *larger; i++)
        if (larger[i].type == type)
            return fmax(most, cols % SUPERBLOCK_INPUTS ? larger[i].odd : larger[i].whole);
    return most;
}

/* Every width that has whole blocks: no weight changes, and the matrix is hardly larger. */
static void no_type_of_gguf_grows_or_changes_at_any_width(void **state) {
    (void)state;
    static const size_t widths[] = {256, 576, 640, 896, 1024};
    for (size_t i = 0; i < BLOCK_TYPES; i++)
        for (size_t k = 0; k < sizeof widths / sizeof *widths; k++) {
            const StoredTypeInfo *info = stored_type_info(block_types[i]);
            if (widths[k] % info->block) continue;
            const double grows = growth(block_types[i], widths[k]);
            if (!(grows <= growth_allowed(block_types[i], widths[k])))
                fail_msg("%s, rows of %zu: %.3f of its size", info->name, widths[k], grows);
            if (largest_difference(block_types[i], widths[k]) != 0)
                fail_msg("%s, rows of %zu: a weight changes", info->name, widths[k]);
        }
}

/* ---- Quantizing ---- */

/* Quantizes 16 rows of `cols` values times `size`, drawn from a roughly normal (`heavy`: a
 * heavy-tailed) distribution. Returns the mean square error over the mean square. */
static double error_of_quantizing(TensorType type, size_t cols, float size, bool heavy) {
    size_t padded = tensor_padded_cols(type, cols), groups = padded / type_group(type), bytes;
    float *x = calloc(PANEL_ROWS * padded, sizeof *x), *row = malloc(cols * sizeof *row);
    uint64_t state = 1;
    for (size_t r = 0; r < PANEL_ROWS; r++)
        for (size_t i = 0; i < cols; i++) {
            double sum = 0;
            for (int k = 0; k < 12; k++) {
                state = state * 6364136223846793005u + 1442695040888963407u;
                sum += (double)(state >> 40) / (1 << 24) - 0.5;
            }
            x[r * padded + i] = size * (float)(heavy ? sum * sum * sum : sum);
        }
    SuperblockCodes codes = codes_new(padded, groups);
    for (size_t r = 0; r < PANEL_ROWS; r++) {
        SuperblockCodes at = row_of(&codes, padded, groups, r);
        quantize_superblocks(type, padded, x + r * padded, NULL, &at);
    }
    assert_true(tensor_panel_bytes(type, cols, &bytes));
    uint8_t *panel = aligned_alloc(64, bytes);
    superblocks_pack(type, cols, &codes, panel);
    Matrix w = {type, PANEL_ROWS, cols, bytes, panel};
    double error = 0, square = 0;
    for (size_t r = 0; r < PANEL_ROWS; r++) {
        matrix_row(&w, r, row);
        for (size_t i = 0; i < cols; i++) {
            double v = (double)x[r * padded + i], d = v - (double)row[i];
            error += d * d, square += v * v;
        }
    }
    free(x);
    free(row);
    free(panel);
    codes_free(&codes);
    return square > 0 ? error / square : error;
}

/* The bounds are slightly above the errors reached today. */
static void quantizing_loses_no_more_than_it_must(void **state) {
    (void)state;
    static const struct {
        TensorType type;
        double bell, heavy;
    } bounds[] = {{TENSOR_Q4_K, 0.0053, 0.0085},    {TENSOR_Q5_K, 0.0013, 0.0024},
                  {TENSOR_Q6_K, 0.00031, 0.00063},  {TENSOR_Q4_NL, 0.0059, 0.0086},
                  {TENSOR_MXFP4, 0.0135, 0.0197},   {TENSOR_NVFP4, 0.0074, 0.0055},
                  {TENSOR_Q2_K, 0.076, 0.071},      {TENSOR_Q3_K, 0.0217, 0.024},
                  {TENSOR_IQ2, 0.035, 0.028},       {TENSOR_IQ1, 0.085, 0.053},
                  {TENSOR_IQ3_XXS, 0.0072, 0.042},  {TENSOR_IQ3_S, 0.0075, 0.045},
                  {TENSOR_IQ4_XS, 0.0059, 0.0086},  {TENSOR_Q2_0, 0.145, 0.17},
                  {TENSOR_TQ2_0, 0.166, 0.28},      {TENSOR_Q1_0, 0.51, 4.2},
                  {TENSOR_NVFP4_T, 0.0074, 0.0057}, {TENSOR_IQ2_K, 0.083, 0.085},
                  {TENSOR_IQ2_KS, 0.105, 0.135},    {TENSOR_IQ3_K, 0.0193, 0.02},
                  {TENSOR_IQ3_KS, 0.0243, 0.0325},  {TENSOR_IQ4_K, 0.0042, 0.0051},
                  {TENSOR_IQ4_KS, 0.0055, 0.0081},  {TENSOR_IQ5_K, 0.0011, 0.00165},
                  {TENSOR_IQ5_KS, 0.0014, 0.0026},  {TENSOR_IQ6_K, 0.00025, 0.00037},
                  {TENSOR_Q5_0, 0.0016, 0.0036},    {TENSOR_Q5_1, 0.0012, 0.0021},
                  {TENSOR_IQ2_XXS, 0.121, 0.442},   {TENSOR_IQ2_XS, 0.088, 0.26},
                  {TENSOR_IQ2_S, 0.061, 0.259},     {TENSOR_IQ3_XXS_G, 0.0376, 0.0825},
                  {TENSOR_IQ3_S_G, 0.0187, 0.0608}, {TENSOR_IQ1_S, 0.235, 0.368},
                  {TENSOR_IQ1_M, 0.211, 0.235}};
    for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++) {
        double bell = error_of_quantizing(bounds[i].type, 512, 0.02f, false);
        double heavy = error_of_quantizing(bounds[i].type, 512, 0.02f, true);
        print_message("%-6s %.6f  heavy tails %.6f\n", tensor_type_info(bounds[i].type)->name, bell,
                      heavy);
        assert_true(bell < bounds[i].bell);
        assert_true(heavy < bounds[i].heavy);
    }
}

/* Weights that are three levels times a float16 need no block types: the quantizer finds the scale.
 */
static void ternary_weights_are_quantized_without_loss(void **state) {
    (void)state;
    enum { COLS = 512 };
    static const TensorType types[] = {TENSOR_TQ2_0, TENSOR_Q2_0};
    float x[COLS], row[COLS];
    for (size_t i = 0; i < COLS; i++)
        x[i] = ldexpf((float)(i * i % 7 % 3) - 1.0f, -5) * (i < 256 ? 1.375f : 3.0f);
    for (size_t t = 0; t < 2; t++) {
        size_t bytes;
        SuperblockCodes codes = codes_new(COLS, COLS / 32);
        quantize_superblocks(types[t], COLS, x, NULL, &codes);
        assert_true(tensor_panel_bytes(types[t], COLS, &bytes));
        uint8_t *panel = aligned_alloc(64, bytes);
        superblocks_pack(types[t], COLS, &codes, panel);
        const Matrix w = {types[t], 1, COLS, bytes, panel};
        matrix_row(&w, 0, row);
        for (size_t i = 0; i < COLS; i++) assert_true(row[i] == x[i]);
        free(panel);
        codes_free(&codes);
    }
}

static void weights_of_any_size_and_shape_can_be_quantized(void **state) {
    (void)state;
    static const float sizes[] = {0.0f, 1e-38f, 1e-12f, 1e-6f, 1.0f, 1000.0f};
    static const size_t cols[] = {1, 31, 64, 257, 288};
    for (uint32_t t = TENSOR_F32; t < TENSOR_TYPES; t++)
        for (size_t i = 0; is_superblock_type((TensorType)t) && i < sizeof sizes / sizeof *sizes;
             i++)
            for (size_t k = 0; k < sizeof cols / sizeof *cols; k++) {
                double error = error_of_quantizing((TensorType)t, cols[k], sizes[i], false);
                assert_true(error <= 1.01);
            }
}

/* Every code of FP8 (E4M3) and of its scales (E8M0) has the value that its standard gives it. */
static void floats_of_8_bits_have_their_values(void **state) {
    (void)state;
    for (int i = 0; i < 256; i++) {
        uint8_t code = (uint8_t)i;
        float value, power;
        int exponent = i >> 3 & 15, mantissa = i & 7;
        double magnitude =
            exponent ? ldexp(1.0 + mantissa / 8.0, exponent - 7) : ldexp(mantissa / 8.0, -6);
        stored_to_floats(STORED_F8_E4M3, &code, 1, &value);
        stored_to_floats(STORED_F8_E8M0, &code, 1, &power);
        assert_int_equal(isnan(value) != 0, (i & 127) == 127);
        assert_int_equal(isnan(power) != 0, i == 255);
        if (!isnan(value)) assert_true((double)value == (i < 128 ? magnitude : -magnitude));
        if (!isnan(power)) assert_true((double)power == ldexp(1.0, i - 127));
    }
}

/* --table prints the table of GGUF's types (scripts/gguf-types). */
int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "--table") == 0) {
        write_table(stdout);
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_those_of_the_gguf_package),
        cmocka_unit_test(panels_hold_every_weight_of_the_blocks_unchanged),
        cmocka_unit_test(panels_are_hardly_larger_than_the_blocks),
        cmocka_unit_test(a_scale_that_is_not_finite_is_found),
        cmocka_unit_test(nvfp4_beside_a_factor_is_held_without_loss),
        cmocka_unit_test(values_of_few_bits_are_those_of_the_gguf_package),
        cmocka_unit_test(panels_hold_every_weight_of_few_bits_unchanged),
        cmocka_unit_test(blocks_with_scales_that_are_no_numbers_are_found),
        cmocka_unit_test(every_type_of_gguf_keeps_its_values_as_the_docs_say),
        cmocka_unit_test(no_type_of_gguf_grows_or_changes_at_any_width),
        cmocka_unit_test(quantizing_loses_no_more_than_it_must),
        cmocka_unit_test(ternary_weights_are_quantized_without_loss),
        cmocka_unit_test(weights_of_any_size_and_shape_can_be_quantized),
        cmocka_unit_test(floats_of_8_bits_have_their_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
