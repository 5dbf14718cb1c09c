/* Every kernel set gives the bits of kernels/reference.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <omp.h>

#include "core/isa.h"
#include "kernels/block_kernels.h"
#include "kernels/matmul.h"
#include "kernels/panel_pack.h"
#include "kernels/superblocks.h"
#include "core/numeric.h"
#include "tests/portable.h"
#include "tests/tier.h"

static uint32_t hash(uint32_t i) {
    i ^= i >> 16, i *= 0x7FEB352Du, i ^= i >> 15, i *= 0x846CA68Bu;
    return i ^ i >> 16;
}

/* Returns pseudo-random number i: mostly in (-1, 1), some large, some zero. */
static float value_of(uint32_t i) {
    uint32_t h = hash(i);
    float v = (float)((int32_t)(h & 0xFFFF) - 0x8000) / 0x8000;
    return (h >> 28) == 0 ? 16 * v : (h >> 28) == 1 ? 0.0f : v;
}

/* Like the function above for the types of superblocks.h. Bytes of a panel past its rows and
 * columns are zero. */
static void fill_superblocks(TensorType type, size_t rows, size_t cols, uint32_t seed,
                             uint8_t *data) {
    size_t padded = tensor_padded_cols(type, cols), groups = padded / type_group(type), panel;
    assert_true(tensor_panel_bytes(type, cols, &panel));
    SuperblockCodes parts = {malloc(PANEL_ROWS * padded), malloc(PANEL_ROWS * groups * 2),
                             malloc(PANEL_ROWS * groups * 2), malloc(PANEL_ROWS * groups),
                             malloc(PANEL_ROWS * groups)};
    const TensorTypeInfo *info = tensor_type_info(type);
    uint32_t largest = info->codebook ? 255 : (1u << info->bits) - 1;
    for (size_t p = 0; p < (rows + 15) / 16; p++) {
        for (size_t i = 0; i < PANEL_ROWS * padded; i++) {
            bool real = p * PANEL_ROWS + i / padded < rows && i % padded < cols;
            uint32_t h = hash(seed + (uint32_t)(p * PANEL_ROWS * padded + i));
            parts.codes[i] = real ? (uint8_t)(h & largest) : 0;
        }
        for (size_t i = 0; i < PANEL_ROWS * groups; i++) {
            bool real = p * PANEL_ROWS + i / groups < rows;
            uint32_t h = hash(seed + 17 + (uint32_t)i);
            parts.scales[i] = numbers_float_to_half(real ? 0.01f + 0.01f * value_of(h) : 0.0f);
            parts.minima[i] = numbers_float_to_half(real ? 0.1f * value_of(h + 1) : 0.0f);
            parts.sub_scales[i] = (uint8_t)(h & (info->scales == SCALES_SIGNED_PARTS ? 255 : 63));
            if (info->scales == SCALES_6_BIT_PARTS) parts.sub_scales[i] -= 32;
            if (info->scales == SCALES_ODD_PARTS || info->codebook) parts.sub_scales[i] &= 15;
            if (info->scales == SCALES_POWERS)
                parts.sub_scales[i] = real ? (uint8_t)(h % 30 + 105) : 0;
            parts.sub_minima[i] = (uint8_t)(h >> 8 & 63);
        }
        superblocks_pack(type, cols, &parts, data + p * panel);
    }
    free(parts.codes);
    free(parts.scales);
    free(parts.minima);
    free(parts.sub_scales);
    free(parts.sub_minima);
}

/* Makes a matrix of pseudo-random weights whose codes take every value. The caller frees
 * matrix->data. */
static Matrix matrix_new(TensorType type, size_t rows, size_t cols, uint32_t seed) {
    const TensorTypeInfo *info = tensor_type_info(type);
    size_t padded = tensor_padded_cols(type, cols), panel_bytes, bytes;
    assert_true(tensor_panel_bytes(type, cols, &panel_bytes));
    assert_true(tensor_matrix_bytes(type, rows, cols, &bytes));
    uint8_t *data = aligned_alloc(64, bytes);
    if (is_superblock_type(type)) {
        fill_superblocks(type, rows, cols, seed, data);
        return (Matrix){type, rows, cols, panel_bytes, data};
    }
    size_t groups = info->group ? padded / info->group : 0, panels = (rows + 15) / 16;
    uint8_t *codes = malloc(PANEL_ROWS * padded);
    float *x = malloc(PANEL_ROWS * cols * sizeof *x);
    uint16_t *scales = malloc(PANEL_ROWS * (groups + 1) * sizeof *scales);
    uint16_t *minima = malloc(PANEL_ROWS * (groups + 1) * sizeof *minima);
    for (size_t p = 0; p < panels; p++) {
        for (size_t i = 0; i < PANEL_ROWS * padded; i++) {
            bool real = p * PANEL_ROWS + i / padded < rows && i % padded < cols;
            uint8_t code = (uint8_t)hash(seed + (uint32_t)(p * PANEL_ROWS * padded + i));
            codes[i] = real ? (info->line_inputs == 8 ? code & 15 : code) : info->zero;
        }
        for (size_t i = 0; i < PANEL_ROWS * cols; i++)
            x[i] = p * PANEL_ROWS + i / cols < rows
                       ? value_of(seed + (uint32_t)(p * PANEL_ROWS * cols + i))
                       : 0.0f;
        for (size_t i = 0; i < PANEL_ROWS * groups; i++) {
            scales[i] = numbers_float_to_half(0.01f + 0.01f * value_of(seed + 7 + (uint32_t)i));
            minima[i] = numbers_float_to_half(0.1f * value_of(seed + 9 + (uint32_t)i));
        }
        if (info->group) {
            panel_pack_codes(type, cols, codes, scales, minima, data + p * panel_bytes);
        } else {
            panel_pack_floats(type, cols, x, data + p * panel_bytes);
        }
    }
    free(codes);
    free(x);
    free(scales);
    free(minima);
    return (Matrix){type, rows, cols, panel_bytes, data};
}

static float *input_new(size_t n_rows, size_t n_inputs, uint32_t seed) {
    float *x = malloc(n_rows * n_inputs * sizeof *x);
    for (size_t i = 0; i < n_rows * n_inputs; i++) x[i] = value_of(seed + (uint32_t)i);
    return x;
}

enum { GUARD = 3 }; /* columns after each row of output that must not be written */

static float *output_new(size_t n_rows, size_t stride) {
    float *out = malloc(n_rows * stride * sizeof *out);
    for (size_t i = 0; i < n_rows * stride; i++) out[i] = 12345.0f;
    return out;
}

/* Computes the sets in memory for inputs of `room` rows. */
static void run_sets(const Kernels *kernels, size_t room, size_t n_inputs, const ProductSet *sets,
                     size_t n_sets, int n_threads) {
    MatmulMemory *memory = matmul_memory_new(kernels, room, n_inputs, n_threads);
    assert_non_null(memory);
    if (n_threads == 1) {
        matmul(kernels, memory, n_inputs, sets, n_sets);
    } else {
#pragma omp parallel num_threads(n_threads)
        matmul(kernels, memory, n_inputs, sets, n_sets);
    }
    matmul_memory_free(memory);
}

static void run(const Kernels *kernels, const float *x, size_t n_rows, size_t n_inputs,
                const Product *products, size_t n_products, int n_threads) {
    run_sets(kernels, n_rows, n_inputs, &(ProductSet){x, n_rows, products, n_products, NULL}, 1,
             n_threads);
}

#if defined(__x86_64__)
extern const Kernels kernels_amx_emulated; /* amx_emulated.c */
extern const Kernels kernels_amx_bf16_emulated, kernels_avx512_bf16_emulated;
#endif
extern const Kernels kernels_portable; /* tests/portable.h */

/* Calls `body` for each kernel set of this machine except the reference. On a machine with AVX-512
 * this includes AMX with emulated tiles. */
static void each_kernel_set(void (*body)(const Kernels *kernels, void *context), void *context) {
#if defined(__x86_64__)
    Error error;
    if (isa_choose("avx2", &error)) {
        body(&kernels_amx_bf16_emulated, context);
        body(&kernels_avx512_bf16_emulated, context);
    }
    if (isa_choose("avx512", &error)) {
        body(&kernels_amx_emulated, context);
    } else {
        print_message("skipped: no AVX-512, so AMX is not emulated\n");
    }
#endif
    for (size_t i = 1; isa_available(i); i++) body(isa_available(i)->kernels, context);
    if (!isa_available(1)) print_message("skipped: only the reference runs on this machine\n");
}

/* One product of every kernel set, compared with the reference's. */
typedef struct Check {
    const Matrix *w;
    const float *x, *want;
    size_t n_rows, stride;
    int n_threads;
} Check;

static void compare(const Kernels *kernels, void *context) {
    const Check *c = context;
    size_t n = c->n_rows * c->stride;
    float *got = output_new(c->n_rows, c->stride);
    run(kernels, c->x, c->n_rows, c->w->cols, &(Product){c->w, got, c->stride}, 1, c->n_threads);
    for (size_t i = 0; i < n; i++) {
        if (memcmp(got + i, c->want + i, sizeof *got) == 0) continue;
        fail_msg("%s, %s, %zu x %zu, %zu rows: row %zu output %zu is %a, not %a", kernels->name,
                 tensor_type_info(c->w->type)->name, c->w->rows, c->w->cols, c->n_rows,
                 i / c->stride, i % c->stride, (double)got[i], (double)c->want[i]);
    }
    assert_memory_equal(got, c->want, n * sizeof *got);
    free(got);
}

static void check(const Matrix *w, size_t n_rows, int n_threads) {
    size_t stride = w->rows + GUARD;
    float *x = input_new(n_rows, w->cols, (uint32_t)(w->cols + n_rows));
    float *want = output_new(n_rows, stride);
    run(&kernels_reference, x, n_rows, w->cols, &(Product){w, want, stride}, 1, 1);
    each_kernel_set(compare, &(Check){w, x, want, n_rows, stride, n_threads});
    free(x);
    free(want);
}

/* The reference of the tests is built with the processor's fused multiply-add (Makefile:
 * FAST_PLAIN), the program's is not. The numeric functions, attention and recurrences of both
 * builds are compared by test_exactness and test_reference_logits. */
static void the_program_s_plain_kernels_give_the_same_bits(void **state) {
    (void)state;
    for (uint32_t t = TENSOR_F32; t < TENSOR_TYPES; t++) {
        Matrix w = matrix_new((TensorType)t, 83, 100, t);
        for (size_t n_rows = 1; n_rows <= 5; n_rows += 4) {
            size_t stride = w.rows + GUARD;
            float *x = input_new(n_rows, w.cols, t), *want = output_new(n_rows, stride);
            run(&kernels_reference, x, n_rows, w.cols, &(Product){&w, want, stride}, 1, 1);
            compare(&kernels_portable, &(Check){&w, x, want, n_rows, stride, 1});
            free(x);
            free(want);
        }
        free((void *)w.data);
    }
}

static void bits_are_the_reference_s_for_any_number_of_rows(void **state) {
    (void)state;
    for (uint32_t t = TENSOR_F32; t < TENSOR_TYPES; t++) {
        Matrix w = matrix_new((TensorType)t, 83, 96, t);
        for (size_t n_rows = 1; n_rows <= 40; n_rows++) check(&w, n_rows, 1);
        free((void *)w.data);
    }
}

/* A type of 5 bits and one of 8 bits that holds the same weights: a GGUF file's Q5_0 was kept as q8
 * once, Q5_1 as q8_min, and its answers stay what they were. */
static void five_bits_give_the_bits_of_the_same_weights_in_eight(void **state) {
    (void)state;
    static const struct {
        TensorType five, eight;
    } pairs[] = {{TENSOR_Q5_0, TENSOR_Q8}, {TENSOR_Q5_1, TENSOR_Q8_MIN}};
    enum { COLS = 640, GROUPS = COLS / 32, ROWS = 40 };
    uint8_t codes[PANEL_ROWS * COLS];
    uint16_t scales[PANEL_ROWS * GROUPS], minima[PANEL_ROWS * GROUPS];
    for (size_t i = 0; i < sizeof codes; i++) codes[i] = hash((uint32_t)i) & 31;
    for (size_t i = 0; i < sizeof scales / sizeof *scales; i++) {
        scales[i] = numbers_float_to_half(0.01f + 0.01f * value_of((uint32_t)i));
        minima[i] = numbers_float_to_half(0.1f * value_of(99 + (uint32_t)i));
    }
    for (size_t k = 0; k < sizeof pairs / sizeof *pairs; k++) {
        Matrix five = matrix_new(pairs[k].five, PANEL_ROWS, COLS, 1);
        Matrix eight = matrix_new(pairs[k].eight, PANEL_ROWS, COLS, 1);
        const SuperblockCodes parts = {codes, scales, minima, codes, codes};
        superblocks_pack(five.type, COLS, &parts, (uint8_t *)five.data);
        uint8_t zero = tensor_type_info(five.type)->zero, lowered[PANEL_ROWS * COLS];
        for (size_t i = 0; i < sizeof codes; i++) lowered[i] = (uint8_t)(codes[i] - zero);
        panel_pack_codes(eight.type, COLS, lowered, scales, minima, (uint8_t *)eight.data);
        for (size_t n_rows = 1; n_rows <= ROWS; n_rows += 13) {
            float *x = input_new(n_rows, COLS, 5), *want = output_new(n_rows, PANEL_ROWS);
            run(&kernels_reference, x, n_rows, COLS, &(Product){&eight, want, PANEL_ROWS}, 1, 1);
            const Check c = {&five, x, want, n_rows, PANEL_ROWS, 1};
            compare(&kernels_reference, (void *)&c);
            each_kernel_set(compare, (void *)&c);
            free(x);
            free(want);
        }
        free((void *)five.data);
        free((void *)eight.data);
    }
}

static void bits_are_the_reference_s_for_any_shape(void **state) {
    (void)state;
    static const size_t inputs[] = {1, 2, 3, 31, 32, 33, 63, 64, 65, 100, 257, 513};
    static const size_t outputs[] = {1, 15, 16, 17, 33, 64, 65, 100};
    static const size_t rows[] = {1, 2, 5, 9, 17};
    for (uint32_t t = TENSOR_F32; t < TENSOR_TYPES; t++)
        for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++)
            for (size_t o = 0; o < sizeof outputs / sizeof *outputs; o++) {
                if (!tier_takes(t + i * 8 + o, 17, 1)) continue;
                Matrix w = matrix_new((TensorType)t, outputs[o], inputs[i], t + 100);
                for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) check(&w, rows[r], 1);
                free((void *)w.data);
            }
}

static void bits_are_the_reference_s_for_many_rows_and_long_sums(void **state) {
    (void)state;
    for (uint32_t t = TENSOR_F32; t < TENSOR_TYPES; t++) {
        if (!tier_takes(t, 9, 1)) continue;
        Matrix w = matrix_new((TensorType)t, 150, 1100, t + 200);
        check(&w, 512, 2);
        check(&w, 511, 2);
        free((void *)w.data);
        /* More inputs than any kernel takes in one run, and an odd number of panels. Up to 24 rows
         * read 16-bit floats as they are stored. */
        w = matrix_new((TensorType)t, 40, 4200, t + 250);
        check(&w, 20, 1);
        check(&w, 25, 1);
        check(&w, 100, 1);
        free((void *)w.data);
    }
}

/* Multiplies matrices of all types in one call, with 3 threads, which never divide the rows
 * evenly. */
static void mixed_products(const Kernels *kernels, void *context) {
    (void)context;
    enum { COUNT = TENSOR_TYPES - 1 };
    static const size_t rows[] = {1, 7, 40};
    Matrix w[COUNT];
    for (uint32_t t = 0; t < COUNT; t++)
        w[t] = matrix_new((TensorType)(t + 1), 300 + 31 * t, 320, t + 300);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        float *x = input_new(rows[i], 320, 1);
        Product want[COUNT], got[COUNT];
        for (size_t t = 0; t < COUNT; t++) {
            want[t] = (Product){&w[t], output_new(rows[i], w[t].rows), w[t].rows};
            got[t] = (Product){&w[t], output_new(rows[i], w[t].rows), w[t].rows};
        }
        run(&kernels_reference, x, rows[i], 320, want, COUNT, 1);
        run(kernels, x, rows[i], 320, got, COUNT, 3);
        for (size_t t = 0; t < COUNT; t++) {
            assert_memory_equal(got[t].out, want[t].out, rows[i] * w[t].rows * sizeof(float));
            free(want[t].out);
            free(got[t].out);
        }
        free(x);
    }
    for (uint32_t t = 0; t < COUNT; t++) free((void *)w[t].data);
}
static void products_share_an_input_and_any_number_of_threads(void **state) {
    (void)state;
    mixed_products(&kernels_reference, NULL);
    each_kernel_set(mixed_products, NULL);
}

/* Many sets, as the experts of a mixture: with and without rows, of types of all groups, more
 * products than one list of work holds, and more rows than the memory has room for at once. */
static void many_sets(const Kernels *kernels, void *context) {
    (void)context;
    enum { COUNT = TENSOR_TYPES - 1, SETS = 220, COLS = 192, ROOM = 40 };
    static Product got[SETS][2];
    static ProductSet sets[SETS];
    Matrix w[COUNT];
    for (uint32_t t = 0; t < COUNT; t++)
        w[t] = matrix_new((TensorType)(t + 1), 17 + 5 * t, COLS, t + 700);
    for (size_t s = 0; s < SETS; s++) {
        size_t rows = s % 7 == 3 ? 0 : s % 11 == 5 ? ROOM : 1 + s % 5;
        sets[s] = (ProductSet){input_new(rows, COLS, (uint32_t)s), rows, got[s], 1 + s % 2, NULL};
        for (size_t p = 0; p < 2; p++) {
            const Matrix *matrix = &w[(s + 7 * p) % COUNT];
            got[s][p] = (Product){matrix, output_new(rows, matrix->rows), matrix->rows};
        }
    }
    run_sets(kernels, ROOM, COLS, sets, SETS, 3);
    for (size_t s = 0; s < SETS; s++) {
        for (size_t p = 0; p < 2; p++) {
            Product want = got[s][p];
            want.out = output_new(sets[s].n_rows, want.stride);
            if (p < sets[s].n_products && sets[s].n_rows > 0)
                run(&kernels_reference, sets[s].x, sets[s].n_rows, COLS, &want, 1, 1);
            assert_memory_equal(got[s][p].out, want.out,
                                sets[s].n_rows * want.stride * sizeof(float));
            free(want.out);
            free(got[s][p].out);
        }
        free((void *)sets[s].x);
    }
    for (uint32_t t = 0; t < COUNT; t++) free((void *)w[t].data);
}
static void many_sets_of_products_are_one_list_of_work(void **state) {
    (void)state;
    many_sets(&kernels_reference, NULL);
    each_kernel_set(many_sets, NULL);
}

/* A set may read rows that lie apart. */
static void rows_apart(const Kernels *kernels, void *context) {
    (void)context;
    enum { COLS = 160, OUTPUTS = 40, ROWS = 40 };
    static float want[ROWS * OUTPUTS], got[ROWS * OUTPUTS];
    uint32_t numbers[ROWS];
    float *x = input_new(3 * ROWS, COLS, 5), *packed = malloc(ROWS * COLS * sizeof *packed);
    for (size_t i = 0; i < ROWS; i++) {
        numbers[i] = (uint32_t)(3 * i + i % 3);
        memcpy(packed + i * COLS, x + numbers[i] * COLS, COLS * sizeof *x);
    }
    for (uint32_t t = TENSOR_F32; t < TENSOR_TYPES; t++) {
        if (weight_types[t].group == 0) continue;
        Matrix w = matrix_new((TensorType)t, OUTPUTS, COLS, t + 900);
        for (size_t n = 1; n <= ROWS; n = 2 * n + 1) {
            Product product = {&w, got, OUTPUTS};
            run(&kernels_reference, packed, n, COLS, &(Product){&w, want, OUTPUTS}, 1, 1);
            memset(got, 0, sizeof got);
            run_sets(kernels, n, COLS, &(ProductSet){x, n, &product, 1, numbers}, 1, 2);
            assert_memory_equal(got, want, n * OUTPUTS * sizeof *got);
        }
        free((void *)w.data);
    }
    free(x);
    free(packed);
}
static void a_set_may_read_rows_that_lie_apart(void **state) {
    (void)state;
    rows_apart(&kernels_reference, NULL);
    each_kernel_set(rows_apart, NULL);
}

/* Activations at the limits of their range: huge, tiny, zero, and all of the same size. */
static void extreme_inputs(const Kernels *kernels, void *context) {
    (void)context;
    static const float sizes[] = {0.0f, 1e-38f, 9e-31f, 2e-30f, 1e-10f, 1e10f, 3e38f};
    size_t count = sizeof sizes / sizeof *sizes, n = 3 * count, cols = 128;
    for (uint32_t t = TENSOR_F32; t < TENSOR_TYPES; t++) {
        Matrix w = matrix_new((TensorType)t, 40, cols, t + 400);
        float *x = malloc(n * cols * sizeof *x), want[40 * 21], got[40 * 21];
        for (size_t i = 0; i < n * cols; i++)
            x[i] = sizes[i / cols % count] * (i % 3   ? value_of((uint32_t)i) / 16
                                              : i % 2 ? 1.0f
                                                      : -1.0f);
        for (size_t rows = 1; rows <= n; rows++) {
            run(&kernels_reference, x + (n - rows) * cols, rows, cols, &(Product){&w, want, 40}, 1,
                1);
            run(kernels, x + (n - rows) * cols, rows, cols, &(Product){&w, got, 40}, 1, 1);
            for (size_t i = 0; i < rows * 40; i++)
                assert_true(memcmp(got + i, want + i, sizeof *got) == 0 ||
                            (isnan(got[i]) && isnan(want[i])));
        }
        free(x);
        free((void *)w.data);
    }
}
static void bits_are_the_reference_s_for_extreme_inputs(void **state) {
    (void)state;
    each_kernel_set(extreme_inputs, NULL);
}

/* Codes of 8 bits and activations that are all as large as they can be, and more inputs than a
 * kernel takes in one run. */
static void bits_are_the_reference_s_for_the_largest_products(void **state) {
    (void)state;
    static const TensorType types[] = {TENSOR_Q8, TENSOR_Q8_64, TENSOR_Q8_MIN};
    static const uint8_t codes[] = {0x80, 0x7F, 0x00, 0xFF};
    static const size_t row_counts[] = {1, 4, 7, 13, 16};
    enum { COLS = 1088, OUTPUTS = 32, STRIDE = OUTPUTS + GUARD, MOST_ROWS = 16 };
    float *x = malloc(MOST_ROWS * COLS * sizeof *x);
    for (size_t i = 0; i < MOST_ROWS * COLS; i++) x[i] = i / COLS % 2 ? 1.0f : -1.0f;
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        Matrix w = matrix_new(types[t], OUTPUTS, COLS, 600);
        for (size_t c = 0; c < sizeof codes; c++) {
            for (size_t p = 0; p < matrix_panels(&w); p++)
                memset((uint8_t *)w.data + p * w.panel_bytes, codes[c], PANEL_ROWS * COLS);
            for (size_t r = 0; r < sizeof row_counts / sizeof *row_counts; r++) {
                size_t n = row_counts[r];
                float *want = output_new(n, STRIDE);
                run(&kernels_reference, x, n, COLS, &(Product){&w, want, STRIDE}, 1, 1);
                each_kernel_set(compare, &(Check){&w, x, want, n, STRIDE, 1});
                free(want);
            }
        }
        free((void *)w.data);
    }
    free(x);
}

/* Compares a product of bf16_act with the reference's, where NaN has no bits of its own. */
static void compare_bfloats(const Kernels *kernels, void *context) {
    const Check *c = context;
    float *got = output_new(c->n_rows, c->stride);
    run(kernels, c->x, c->n_rows, c->w->cols, &(Product){c->w, got, c->stride}, 1, c->n_threads);
    for (size_t i = 0; i < c->n_rows * c->stride; i++)
        if (memcmp(got + i, c->want + i, sizeof *got) != 0 && !(isnan(got[i]) && isnan(c->want[i])))
            fail_msg("%s, %zu rows: row %zu output %zu is %a, not %a", kernels->name, c->n_rows,
                     i / c->stride, i % c->stride, (double)got[i], (double)c->want[i]);
    free(got);
}

/* At the edges of bf16_act: the floor of 2^-40, the largest numbers, -0 and infinity. The hostile
 * matrix has weights below the floor, among them denormal ones, which a conversion would not leave:
 * instructions that flush denormals must not multiply them. They are all that the second panel has,
 * from input 270 on, which kernels reach in their second run. */
static void bf16_act_has_the_reference_s_bits_at_its_edges(void **state) {
    (void)state;
    enum { OUTPUTS = 40, COLS = 691, STRIDE = OUTPUTS + GUARD, MOST_ROWS = 40 };
    static const uint16_t edges[] = {0,      0x2B80, 0xAB80, 0x2B81, 0x3F80, 0xBF7F, 0x8000,
                                     0x4000, 0x3380, 0xB3FF, 0x3F81, 0x5F00, 0x7F7F, 0xFF7F};
    static const uint16_t low[] = {1, 0x8001, 0x7F, 0x80, 0x8040, 0x0100};
    static const float inputs[] = {
        0.0f,          -0.0f,     0x1p-40f,        -0x1p-40f,  0x1.FF8p-41f, 0x1p-41f,
        -0x1.FEFp-41f, 0x1p-140f, 0x1.FEFFFEp127f, 1.0f,       -0x1.FEp127f, 0x1.01p0f,
        0x1.03p0f,     1e-10f,    -3e10f,          0x1.FFp127f};
    enum { EDGES = sizeof edges / sizeof *edges, LOW = sizeof low / sizeof *low };
    enum { INPUTS = sizeof inputs / sizeof *inputs };
    static const size_t row_counts[] = {1, 2, 13, 16, 17, 40};
    static float x[MOST_ROWS * COLS];
    for (size_t i = 0; i < MOST_ROWS * COLS; i++) {
        /* Rows of ordinary numbers, of edges, and of edges that are finite and small. */
        uint32_t h = hash((uint32_t)i + 77);
        size_t row = i / COLS;
        x[i] = row % 3 == 0 ? value_of(h) : inputs[h % (row % 3 == 1 ? INPUTS : 8)];
    }
    for (int hostile = 0; hostile < 2; hostile++) {
        Matrix w = matrix_new(TENSOR_BF16_ACT, OUTPUTS, COLS, 1);
        uint16_t *weights = (uint16_t *)w.data;
        for (size_t i = 0; i < w.panel_bytes / 2 * matrix_panels(&w); i++)
            if (i % 3) /* the last three, whose sums overflow, in the third panel alone */
                weights[i] = edges[hash((uint32_t)i) % (i < w.panel_bytes ? EDGES - 3 : EDGES)];
        weights += w.panel_bytes / 2;
        for (size_t i = 0; hostile && i < w.panel_bytes / 2; i++)
            weights[i] = i < 270 * PANEL_ROWS ? 0 : low[hash((uint32_t)i) % LOW];
        for (size_t p = 0; hostile && p < matrix_panels(&w); p++) /* after the last input */
            for (size_t i = 0; i < PANEL_ROWS; i++)
                ((uint16_t *)matrix_panel(&w, p))[(COLS - 1) * PANEL_ROWS + 2 * i + 1] = 0x7FC0;
        assert_int_equal(panel_low_row(&w, 0), PANEL_ROWS);
        assert_int_equal(panel_low_row(&w, 1), hostile ? 0 : PANEL_ROWS);
        for (size_t r = 0; r < sizeof row_counts / sizeof *row_counts; r++) {
            size_t n = row_counts[r];
            float *want = output_new(n, STRIDE);
            run(&kernels_reference, x, n, COLS, &(Product){&w, want, STRIDE}, 1, 1);
            each_kernel_set(compare_bfloats, &(Check){&w, x, want, n, STRIDE, 1});
            free(want);
        }
        free((void *)w.data);
    }
#if defined(__x86_64__)
    Error error;
    if (!isa_choose("avx2", &error)) return;
    assert_true(kernels_amx_bf16_emulated.agrees());
    assert_true(kernels_avx512_bf16_emulated.agrees());
#endif
}

static void non_finite_inputs(const Kernels *kernels, void *context) {
    (void)context;
    for (uint32_t t = TENSOR_F32; t < TENSOR_TYPES; t++) {
        Matrix w = matrix_new((TensorType)t, 16, 64, t + 500);
        for (size_t rows = 1; rows < 18; rows += 8) {
            float *x = input_new(rows, 64, 3), out[16 * 17];
            for (int k = 0; k < 2; k++) {
                x[33] = k ? NAN : INFINITY;
                run(kernels, x, rows, 64, &(Product){&w, out, 16}, 1, 1);
                bool finite = true;
                for (size_t i = 0; i < 16; i++) finite &= isfinite(out[i]) != 0;
                assert_false(finite);
                for (size_t i = 16; i < 16 * rows; i++) assert_true(isfinite(out[i]));
            }
            free(x);
        }
        free((void *)w.data);
    }
}
static void a_non_finite_activation_reaches_its_row_s_output_and_no_other(void **state) {
    (void)state;
    non_finite_inputs(&kernels_reference, NULL);
    each_kernel_set(non_finite_inputs, NULL);
}

/* Compares the reference kernels with products computed in double precision from matrix_row. */
static void the_reference_multiplies_the_matrix_that_matrix_row_shows(void **state) {
    (void)state;
    for (uint32_t t = TENSOR_F32; t < TENSOR_TYPES; t++) {
        Matrix w = matrix_new((TensorType)t, 50, 200, t + 600);
        float *x = input_new(2, 200, 4), out[2 * 50], row[200];
        run(&kernels_reference, x, 2, 200, &(Product){&w, out, 50}, 1, 1);
        for (size_t i = 0; i < 2 * 50; i++) {
            double sum = 0, size = 0;
            matrix_row(&w, i % 50, row);
            for (size_t k = 0; k < 200; k++) {
                sum += (double)row[k] * (double)x[i / 50 * 200 + k];
                size += fabs((double)row[k]) * 16;
            }
            /* Activations are rounded to 8 bits, to bfloat16's 8 bits or not at all. */
            double tolerance = tensor_type_info(t)->group           ? size / 254 / 4
                               : tensor_type_info(t)->bfloat_inputs ? size / 512
                                                                    : 1e-6 * size;
            assert_true(fabs(sum - (double)out[i]) < tolerance);
        }
        free(x);
        free((void *)w.data);
    }
}

#if defined(__x86_64__) || defined(__aarch64__)
extern const BlockKernels plain_superblocks_first[TENSOR_TYPES]; /* plain_superblocks.c */

/* The first story's build multiplies superblocks by plain_superblocks.c, beside packed inputs of
 * the instruction set. */
static void plain_kernels_of_superblocks_give_the_reference_s_bits(void **state) {
    (void)state;
    Error error;
    const Isa *isa = isa_choose("avx2", &error);
    if (!isa) isa = isa_choose("neon", &error);
    if (!isa) skip();
    for (uint32_t t = TENSOR_F32; t < TENSOR_TYPES; t++) {
        const BlockKernels *plain = &plain_superblocks_first[t];
        if ((plain->block != NULL) != (tensor_type_info(t)->family == FAMILY_SUPERBLOCKS))
            fail_msg("%s", tensor_type_info(t)->name);
        for (size_t n = 1, rows = 83, cols = 100; plain->block && n <= plain->block_rows; n++) {
            const Matrix w = matrix_new((TensorType)t, rows, cols, t);
            size_t group = type_group(w.type);
            float *x = input_new(n, cols, t), *want = output_new(n, rows + GUARD),
                  *got = output_new(n, rows + GUARD);
            uint8_t *input = malloc(isa->kernels->input_bytes(group, n, cols));
            for (size_t i = 0; i < isa->kernels->pack_tasks(group, n); i++)
                isa->kernels->pack(group, x, n, cols, i, input);
            run(&kernels_reference, x, n, cols, &(Product){&w, want, rows + GUARD}, 1, 1);
            for (size_t p = 0; p < matrix_panels(&w); p++)
                plain->block(&w, p, n, input, got + p * PANEL_ROWS, rows + GUARD,
                             matrix_panel_outputs(&w, p));
            if (memcmp(got, want, n * (rows + GUARD) * sizeof *got) != 0)
                fail_msg("%s, %zu rows", tensor_type_info(t)->name, n);
            free(x), free(want), free(got), free(input);
            free((void *)w.data);
        }
    }
}
#endif

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    portable_list(tier() == TIER_ALL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_reference_multiplies_the_matrix_that_matrix_row_shows),
        cmocka_unit_test(the_program_s_plain_kernels_give_the_same_bits),
        cmocka_unit_test(bits_are_the_reference_s_for_any_number_of_rows),
        cmocka_unit_test(five_bits_give_the_bits_of_the_same_weights_in_eight),
        cmocka_unit_test(bits_are_the_reference_s_for_any_shape),
        cmocka_unit_test(bits_are_the_reference_s_for_many_rows_and_long_sums),
        cmocka_unit_test(products_share_an_input_and_any_number_of_threads),
        cmocka_unit_test(many_sets_of_products_are_one_list_of_work),
        cmocka_unit_test(a_set_may_read_rows_that_lie_apart),
        cmocka_unit_test(bits_are_the_reference_s_for_extreme_inputs),
        cmocka_unit_test(bits_are_the_reference_s_for_the_largest_products),
        cmocka_unit_test(bf16_act_has_the_reference_s_bits_at_its_edges),
#if defined(__x86_64__) || defined(__aarch64__)
        cmocka_unit_test(plain_kernels_of_superblocks_give_the_reference_s_bits),
#endif
        cmocka_unit_test(a_non_finite_activation_reaches_its_row_s_output_and_no_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
