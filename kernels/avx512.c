/* Products of the quantized types with AVX-512 VNNI.
 *
 * vpdpbusd adds four products of an unsigned and a signed byte to each of 16 sums, just what a
 * line holds for 16 outputs. Signed weights are made unsigned by adding 128; the sums start
 * at the activations' offset, -128 * (sum of codes), which takes it out again. A block of up to
 * 12 rows has its integer and its float sums in registers while the weights stream past. */
#include <immintrin.h>

#include "blocks.h"

#define INLINE static inline __attribute__((always_inline))

enum { BLOCK_ROWS = 12 };

INLINE __m512 load_halves(const uint16_t *p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
}

INLINE __m512i broadcast_4_codes(const uint8_t *p) {
    int32_t codes;
    memcpy(&codes, p, sizeof codes);
    return _mm512_set1_epi32(codes);
}

/* Eight inputs of the 16 outputs, as unsigned bytes: 4 in *a, 4 in *b. */
INLINE void load_8_inputs(TensorType type, const uint8_t *line, __m512i *a, __m512i *b) {
    *a = _mm512_load_si512(line);
    if (is_4_bit(type)) {
        const __m512i low = _mm512_set1_epi8(15);
        *b = _mm512_and_si512(_mm512_srli_epi16(*a, 4), low);
        *a = _mm512_and_si512(*a, low);
        return;
    }
    *b = _mm512_load_si512(line + LINE_BYTES);
    if (is_signed_8(type)) {
        const __m512i flip = _mm512_set1_epi8(-128);
        *a = _mm512_xor_si512(*a, flip);
        *b = _mm512_xor_si512(*b, flip);
    }
}

/* Where a row's integer sums start: weights are raised by 128, by 8 or not at all. */
INLINE __m512i first_sum(TensorType type, int32_t offset) {
    if (has_minima(type)) return _mm512_setzero_si512();
    return _mm512_set1_epi32(type == TENSOR_Q4 ? offset >> 4 : offset);
}

INLINE void multiply_block(TensorType type, const Matrix *w, size_t p, size_t rows,
                           const uint8_t *block, float *out, size_t stride, size_t outputs) {
    const size_t group = group_of(type);
    const uint8_t *panel = matrix_panel(w, p);
    const uint16_t *scales = matrix_scales(w, p), *minima = matrix_minima(w, p);
    const size_t groups = activation_groups(group, w->cols), panel_bytes = w->panel_bytes;
    __m512 acc[BLOCK_ROWS];
#pragma GCC unroll 12
    for (size_t r = 0; r < rows; r++) acc[r] = _mm512_setzero_ps();
    for (size_t g = 0; g < groups; g++, block += rows * activation_bytes(group)) {
        const float *x_scales = (const float *)block;
        const int32_t *offsets = (const int32_t *)block + rows;
        const uint8_t *codes = block + 8 * rows, *line = panel + g * group_bytes(type);
        const uint8_t *ahead = fetch_ahead(type, panel_bytes, panel, scales, minima, g, groups);
        __m512i dot[BLOCK_ROWS], dot2[BLOCK_ROWS]; /* few rows: two sums hide the latency */
#pragma GCC unroll 12
        for (size_t r = 0; r < rows; r++) {
            dot[r] = first_sum(type, offsets[r]);
            dot2[r] = _mm512_setzero_si512();
        }
#pragma GCC unroll 8
        for (size_t k = 0; k < group; k += 8) {
            size_t at = k * group_bytes(type) / group;
            __m512i a, b;
            load_8_inputs(type, line + at, &a, &b);
            _mm_prefetch(ahead + at, _MM_HINT_T1);
            if (!is_4_bit(type)) _mm_prefetch(ahead + at + LINE_BYTES, _MM_HINT_T1);
#pragma GCC unroll 12
            for (size_t r = 0; r < rows; r++) {
                const uint8_t *x = codes + r * group + k;
                __m512i *second = rows < 4 ? &dot2[r] : &dot[r];
                dot[r] = _mm512_dpbusd_epi32(dot[r], a, broadcast_4_codes(x));
                *second = _mm512_dpbusd_epi32(*second, b, broadcast_4_codes(x + 4));
            }
        }
        __m512 scale = load_halves(scales + g * PANEL_ROWS), minimum = scale;
        if (has_minima(type)) minimum = load_halves(minima + g * PANEL_ROWS);
#pragma GCC unroll 12
        for (size_t r = 0; r < rows; r++) {
            __m512 x_scale = _mm512_set1_ps(x_scales[r]);
            if (rows < 4) dot[r] = _mm512_add_epi32(dot[r], dot2[r]);
            acc[r] =
                _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot[r]), _mm512_mul_ps(scale, x_scale), acc[r]);
            if (!has_minima(type)) continue;
            __m512 sum = _mm512_cvtepi32_ps(_mm512_set1_epi32(-offsets[r] >> 7));
            acc[r] = _mm512_fnmadd_ps(sum, _mm512_mul_ps(minimum, x_scale), acc[r]);
        }
    }
    __mmask16 store = (__mmask16)((1u << outputs) - 1);
#pragma GCC unroll 12
    for (size_t r = 0; r < rows; r++) _mm512_mask_storeu_ps(out + r * stride, store, acc[r]);
}

#define ROWS_CASE(type, count)                                                                     \
    case count:                                                                                    \
        multiply_block(type, w, p, count, block, out, stride, outputs);                            \
        break
#define BLOCK_KERNEL(name, type)                                                                   \
    static void name(const Matrix *w, size_t p, size_t rows, const uint8_t *block, float *out,     \
                     size_t stride, size_t outputs) {                                              \
        switch (rows) {                                                                            \
            ROWS_CASE(type, 1);                                                                    \
            ROWS_CASE(type, 2);                                                                    \
            ROWS_CASE(type, 3);                                                                    \
            ROWS_CASE(type, 4);                                                                    \
            ROWS_CASE(type, 5);                                                                    \
            ROWS_CASE(type, 6);                                                                    \
            ROWS_CASE(type, 7);                                                                    \
            ROWS_CASE(type, 8);                                                                    \
            ROWS_CASE(type, 9);                                                                    \
            ROWS_CASE(type, 10);                                                                   \
            ROWS_CASE(type, 11);                                                                   \
            ROWS_CASE(type, 12);                                                                   \
        }                                                                                          \
    }
BLOCK_KERNEL(block_q8, TENSOR_Q8)
BLOCK_KERNEL(block_q8_64, TENSOR_Q8_64)
BLOCK_KERNEL(block_q4, TENSOR_Q4)
BLOCK_KERNEL(block_q4_min, TENSOR_Q4_MIN)
BLOCK_KERNEL(block_q8_min, TENSOR_Q8_MIN)

static BlockKernel *const block_kernels[TENSOR_TYPES] = {
    [TENSOR_Q8] = block_q8,         [TENSOR_Q8_64] = block_q8_64,   [TENSOR_Q4] = block_q4,
    [TENSOR_Q4_MIN] = block_q4_min, [TENSOR_Q8_MIN] = block_q8_min,
};

static size_t input_bytes(size_t group, size_t n_rows, size_t n_inputs) {
    return group ? blocks_bytes(group, n_rows, n_inputs)
                 : float_avx512.input_bytes(n_rows, n_inputs);
}

static size_t pack_tasks(size_t group, size_t n_rows) {
    return group ? n_rows : float_avx512.pack_tasks(n_rows);
}

static void pack(size_t group, const float *x, size_t n_rows, size_t n_inputs, size_t task,
                 void *input) {
    if (group) {
        pack_activation_row(group, x, n_rows, n_inputs, task, BLOCK_ROWS, input);
    } else {
        float_avx512.pack(x, n_rows, n_inputs, task, input);
    }
}

static void multiply(const Product *product, const void *input, size_t n_rows, size_t begin,
                     size_t end, void *scratch) {
    BlockKernel *kernel = block_kernels[product->w->type];
    if (kernel) {
        multiply_blocks(kernel, BLOCK_ROWS, product, input, n_rows, begin, end);
    } else {
        float_avx512.multiply(product, input, n_rows, begin, end, scratch);
    }
}

static double spin(bool integers, size_t rounds) {
    if (!integers) return float_avx512.spin(rounds);
    volatile int32_t zero = 0;
    __m512i sums[BLOCK_ROWS], a = _mm512_set1_epi32(zero);
#pragma GCC unroll 12
    for (size_t i = 0; i < BLOCK_ROWS; i++) sums[i] = _mm512_set1_epi32(zero + (int)i);
    for (size_t r = 0; r < rounds; r++)
#pragma GCC unroll 12
        for (size_t i = 0; i < BLOCK_ROWS; i++) sums[i] = _mm512_dpbusd_epi32(sums[i], a, a);
#pragma GCC unroll 12
    for (size_t i = 1; i < BLOCK_ROWS; i++) sums[0] = _mm512_add_epi32(sums[0], sums[i]);
    zero = _mm512_reduce_add_epi32(sums[0]);
    return 2.0 * LINE_BYTES * BLOCK_ROWS * (double)rounds;
}

const Kernels kernels_avx512 = {
    .name = "avx512",
    .stripe = 4,
    .scratch_bytes = SCRATCH_BYTES,
    .input_bytes = input_bytes,
    .pack_tasks = pack_tasks,
    .pack = pack,
    .multiply = multiply,
    .spin = spin,
};
