/* Panels: sizes, packing and reading back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/numbers.h"
#include "convert/mix.h"
#include "kernels/panel_pack.h"

static uint32_t hash(uint32_t i) {
    i ^= i >> 16, i *= 0x7FEB352Du, i ^= i >> 15, i *= 0x846CA68Bu;
    return i ^ i >> 16;
}

static float value_at(size_t r, size_t k) {
    return (float)((int32_t)(hash((uint32_t)(r * 1000 + k)) % 2000) - 1000) / 1024.0f;
}

static void types_are_found_by_name_and_number(void **state) {
    (void)state;
    TensorType type;
    for (uint32_t t = 0; t < TENSOR_TYPES; t++) {
        assert_true(mix_type_by_name(tensor_type_info(t)->name, &type));
        assert_int_equal(type, t);
    }
    assert_null(tensor_type_info(TENSOR_TYPES));
    assert_false(mix_type_by_name("q9", &type));
}

static void sizes_are_those_of_the_format(void **state) {
    (void)state;
    static const struct {
        TensorType type;
        size_t cols, padded, lines, scales, panel;
    } cases[] = {{TENSOR_F32, 5, 5, 320, 0, 320},
                 {TENSOR_F16, 5, 6, 192, 0, 192},
                 {TENSOR_BF16, 64, 64, 2048, 0, 2048},
                 {TENSOR_Q8, 32, 32, 512, 64, 576},
                 {TENSOR_Q8, 96, 96, 1536, 128, 1664},
                 {TENSOR_Q8_64, 65, 128, 2048, 64, 2112},
                 {TENSOR_Q4, 33, 64, 512, 64, 576},
                 {TENSOR_Q4_MIN, 64, 64, 512, 64, 640},
                 {TENSOR_Q8_MIN, 64, 64, 1024, 64, 1152},
                 {TENSOR_Q4_K, 256, 256, 2368, 0, 2368},
                 {TENSOR_Q5_K, 288, 288, 3520, 0, 3520},
                 {TENSOR_Q6_K, 1, 16, 512, 0, 512},
                 {TENSOR_Q4_NL, 512, 512, 4608, 0, 4608},
                 {TENSOR_MXFP4, 256, 256, 2176, 0, 2176},
                 {TENSOR_NVFP4, 272, 272, 3200, 0, 3200},
                 {TENSOR_Q2_K, 257, 272, 1728, 0, 1728},
                 {TENSOR_Q3_K, 272, 272, 2240, 0, 2240},
                 {TENSOR_Q3_K, 512, 512, 3584, 0, 3584},
                 {TENSOR_IQ2, 256, 256, 1728, 0, 1728},
                 {TENSOR_IQ1, 33, 48, 576, 0, 576},
                 {TENSOR_IQ3_XXS, 256, 256, 2176, 0, 2176},
                 {TENSOR_IQ3_S, 33, 64, 640, 0, 640},
                 {TENSOR_IQ4_XS, 512, 512, 4352, 0, 4352},
                 {TENSOR_IQ4_XS, 33, 64, 640, 0, 640},
                 {TENSOR_Q2_0, 320, 320, 1536, 0, 1536},
                 {TENSOR_TQ2_0, 512, 512, 2112, 0, 2112},
                 {TENSOR_TQ2_0, 256, 256, 1088, 0, 1088},
                 {TENSOR_Q1_0, 384, 384, 896, 0, 896},
                 {TENSOR_NVFP4_T, 257, 272, 2816, 0, 2816},
                 {TENSOR_IQ2_K, 256, 256, 1280, 0, 1280},
                 {TENSOR_IQ2_KS, 512, 512, 2368, 0, 2368},
                 {TENSOR_IQ3_K, 272, 272, 2240, 0, 2240},
                 {TENSOR_IQ3_KS, 512, 512, 3392, 0, 3392},
                 {TENSOR_IQ4_K, 256, 256, 2304, 0, 2304},
                 {TENSOR_IQ4_KS, 288, 288, 2688, 0, 2688},
                 {TENSOR_IQ5_K, 272, 272, 3392, 0, 3392},
                 {TENSOR_IQ5_KS, 256, 256, 2752, 0, 2752},
                 {TENSOR_IQ6_K, 1, 16, 512, 0, 512},
                 {TENSOR_Q5_0, 640, 640, 7040, 0, 7040},
                 {TENSOR_Q5_0, 65, 96, 1088, 0, 1088},
                 {TENSOR_Q5_1, 640, 640, 7680, 0, 7680},
                 {TENSOR_Q5_1, 33, 64, 768, 0, 768},
                 /* (bytes of GGUF's block) * 16, of iq2_xs + 0, rounded up to 64 */
                 {TENSOR_IQ2_XXS, 512, 512, 2112, 0, 2112},
                 {TENSOR_IQ2_XS, 512, 512, 2368, 0, 2368},
                 {TENSOR_IQ2_S, 512, 512, 2624, 0, 2624},
                 {TENSOR_IQ3_XXS_G, 512, 512, 3136, 0, 3136},
                 {TENSOR_IQ3_S_G, 512, 512, 3520, 0, 3520},
                 {TENSOR_IQ1_S, 512, 512, 1600, 0, 1600},
                 {TENSOR_IQ1_M, 512, 512, 1792, 0, 1792},
                 {TENSOR_IQ2_S, 33, 48, 448, 0, 448}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t panel, matrix;
        assert_int_equal(tensor_padded_cols(cases[i].type, cases[i].cols), cases[i].padded);
        assert_int_equal(tensor_lines_bytes(cases[i].type, cases[i].cols), cases[i].lines);
        assert_int_equal(type_scales_bytes(cases[i].type, cases[i].cols), cases[i].scales);
        assert_true(tensor_panel_bytes(cases[i].type, cases[i].cols, &panel));
        assert_int_equal(panel, cases[i].panel);
        assert_true(tensor_matrix_bytes(cases[i].type, 17, cases[i].cols, &matrix));
        assert_int_equal(matrix, 2 * panel);
    }
}

static void sizes_that_overflow_are_refused(void **state) {
    (void)state;
    size_t bytes;
    for (uint32_t t = TENSOR_F32; t < TENSOR_TYPES; t++) {
        assert_false(tensor_panel_bytes((TensorType)t, SIZE_MAX, &bytes));
        assert_false(tensor_panel_bytes((TensorType)t, SIZE_MAX / 64, &bytes));
        assert_false(tensor_matrix_bytes((TensorType)t, SIZE_MAX, 1024, &bytes));
        assert_false(tensor_matrix_bytes((TensorType)t, (size_t)1 << 40, (size_t)1 << 40, &bytes));
    }
}

/* Packs 16 rows of `cols` floats into a panel of `type` and reads them back. */
static void check_float_type(TensorType type, size_t cols) {
    float *x = malloc(PANEL_ROWS * cols * sizeof *x), *row = malloc(cols * sizeof *row);
    size_t bytes;
    assert_true(tensor_panel_bytes(type, cols, &bytes));
    uint8_t *panel = aligned_alloc(64, bytes);
    for (size_t i = 0; i < PANEL_ROWS * cols; i++) x[i] = value_at(i / cols, i % cols);
    panel_pack_floats(type, cols, x, panel);
    Matrix w = {type, PANEL_ROWS, cols, bytes, panel};
    for (size_t r = 0; r < PANEL_ROWS; r++) {
        matrix_row(&w, r, row);
        for (size_t k = 0; k < cols; k++) {
            float v = x[r * cols + k];
            if (type == TENSOR_F16) v = numbers_half_to_float(numbers_float_to_half(v));
            if (type == TENSOR_BF16) v = bfloat_to_float(panel_float_to_bfloat(v));
            assert_true(row[k] == v);
        }
    }
    free(x);
    free(row);
    free(panel);
}

/* Numbers that are packed by their bits make the panel that their values make. */
static void check_numbers(TensorType type, size_t cols) {
    size_t bytes, n = PANEL_ROWS * cols;
    float *x = malloc(n * sizeof *x);
    uint16_t *halves = malloc(n * sizeof *halves);
    assert_true(tensor_panel_bytes(type, cols, &bytes));
    uint8_t *panel = aligned_alloc(64, bytes), *expected = aligned_alloc(64, bytes);
    for (size_t i = 0; i < n; i++) {
        x[i] = value_at(i / cols, i % cols);
        halves[i] = type == TENSOR_F16 ? numbers_float_to_half(x[i]) : panel_float_to_bfloat(x[i]);
    }
    panel_pack_floats(type, cols, x, expected);
    panel_pack_numbers(type, cols, type == TENSOR_F32 ? (void *)x : halves, panel);
    assert_memory_equal(panel, expected, bytes);
    free(x);
    free(halves);
    free(panel);
    free(expected);
}

static void numbers_of_the_panels_type_are_packed_by_their_bits(void **state) {
    (void)state;
    for (uint32_t t = TENSOR_F32; t <= TENSOR_BF16; t++)
        for (size_t cols = 2; cols < 140; cols += 2) check_numbers((TensorType)t, cols);
}

static void float_rows_come_back_as_rounded_to_their_type(void **state) {
    (void)state;
    for (uint32_t t = TENSOR_F32; t <= TENSOR_BF16; t++)
        for (size_t cols = 1; cols < 40; cols += 3) check_float_type((TensorType)t, cols);
}

static void check_code_type(TensorType type, size_t cols) {
    const TensorTypeInfo *info = tensor_type_info(type);
    size_t padded = tensor_padded_cols(type, cols), groups = padded / info->group, bytes;
    uint8_t *codes = calloc(PANEL_ROWS, padded);
    uint16_t *scales = calloc(PANEL_ROWS * groups, sizeof *scales);
    uint16_t *minima = calloc(PANEL_ROWS * groups, sizeof *minima);
    float *row = malloc(cols * sizeof *row);
    for (size_t i = 0; i < PANEL_ROWS * padded; i++)
        codes[i] = (uint8_t)(hash((uint32_t)i) & (info->line_inputs == 8 ? 15 : 255));
    for (size_t i = 0; i < PANEL_ROWS * groups; i++) {
        scales[i] = numbers_float_to_half((float)(i + 1) / 64);
        minima[i] = numbers_float_to_half((float)i / 32);
    }
    assert_true(tensor_panel_bytes(type, cols, &bytes));
    uint8_t *panel = aligned_alloc(64, 2 * bytes);
    panel_pack_codes(type, cols, codes, scales, minima, panel + bytes); /* the second panel */
    Matrix w = {type, 2 * PANEL_ROWS, cols, bytes, panel};
    for (size_t r = 0; r < PANEL_ROWS; r++) {
        matrix_row(&w, PANEL_ROWS + r, row);
        for (size_t k = 0; k < cols; k++) {
            size_t g = r * groups + k / info->group;
            int code = codes[r * padded + k];
            if (type == TENSOR_Q8 || type == TENSOR_Q8_64) code = (int8_t)code;
            if (type == TENSOR_Q4) code -= 8;
            float value = numbers_half_to_float(scales[g]) * (float)code;
            if (info->has_min) value -= numbers_half_to_float(minima[g]);
            assert_true(row[k] == value);
        }
    }
    free(codes);
    free(scales);
    free(minima);
    free(row);
    free(panel);
}

static void quantized_rows_come_back_as_scale_times_code(void **state) {
    (void)state;
    for (uint32_t t = TENSOR_Q8; t <= TENSOR_Q8_MIN; t++)
        for (size_t cols = 1; cols < 300; cols += 41) check_code_type((TensorType)t, cols);
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(types_are_found_by_name_and_number),
        cmocka_unit_test(sizes_are_those_of_the_format),
        cmocka_unit_test(sizes_that_overflow_are_refused),
        cmocka_unit_test(float_rows_come_back_as_rounded_to_their_type),
        cmocka_unit_test(numbers_of_the_panels_type_are_packed_by_their_bits),
        cmocka_unit_test(quantized_rows_come_back_as_scale_times_code),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
