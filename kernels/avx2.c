/* Products of the quantized types with AVX2, which multiplies bytes as unsigned times signed
 * and adds pairs in 16 bits with saturation.
 *
 * 4-bit weights are unsigned and so small that a whole group adds up in 16 bits:
 * 8 lines * 2 * 15 * 127 = 30480. 8-bit weights are split into magnitude and sign, the sign
 * moving to the activation: a pair is at most 2 * 128 * 127 = 32512, then widened at once. */
#include <immintrin.h>

#include "activations.h"
#include "internal.h"

#define INLINE static inline __attribute__((always_inline))

enum { BLOCK_ROWS = 4, HALVES = 2, AHEAD = 4096 };

INLINE bool is_4_bit(TensorType type) {
    return type == TENSOR_Q4 || type == TENSOR_Q4_MIN;
}

INLINE bool has_minima(TensorType type) {
    return type == TENSOR_Q4_MIN || type == TENSOR_Q8_MIN;
}

INLINE __m256 load_halves(const uint16_t *p) {
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p));
}

INLINE __m256i load_codes(const uint8_t *p) {
    return _mm256_load_si256((const __m256i *)p);
}

INLINE __m256i broadcast_4_codes(const int8_t *p) {
    int32_t codes;
    memcpy(&codes, p, sizeof codes);
    return _mm256_set1_epi32(codes);
}

/* Dots of one group of 4-bit codes; dot[row][half] without the offset. */
INLINE void dot_4_bit(size_t rows, const uint8_t *line, const int8_t *codes,
                      __m256i (*dot)[HALVES]) {
    const __m256i low = _mm256_set1_epi8(15), ones = _mm256_set1_epi16(1);
#pragma GCC unroll 4
    for (size_t k = 0; k < 32; k += 8, line += LINE_BYTES) {
        _mm_prefetch((const char *)line + AHEAD, _MM_HINT_T0);
#pragma GCC unroll 2
        for (size_t h = 0; h < HALVES; h++) {
            __m256i both = load_codes(line + 32 * h), a = _mm256_and_si256(both, low);
            __m256i b = _mm256_and_si256(_mm256_srli_epi16(both, 4), low);
#pragma GCC unroll 4
            for (size_t r = 0; r < rows; r++) {
                const int8_t *x = codes + r * 32 + k;
                __m256i sum = _mm256_add_epi16(_mm256_maddubs_epi16(a, broadcast_4_codes(x)),
                                               _mm256_maddubs_epi16(b, broadcast_4_codes(x + 4)));
                dot[r][h] = k ? _mm256_add_epi16(dot[r][h], sum) : sum;
            }
        }
    }
#pragma GCC unroll 4
    for (size_t r = 0; r < rows; r++)
#pragma GCC unroll 2
        for (size_t h = 0; h < HALVES; h++) dot[r][h] = _mm256_madd_epi16(dot[r][h], ones);
}

/* Dots of one group of 8-bit codes; unsigned ones are lowered by 128. */
INLINE void dot_8_bit(bool is_unsigned, size_t group, size_t rows, const uint8_t *line,
                      const int8_t *codes, __m256i (*dot)[HALVES]) {
    const __m256i flip = _mm256_set1_epi8(is_unsigned ? -128 : 0), ones = _mm256_set1_epi16(1);
#pragma GCC unroll 4
    for (size_t r = 0; r < rows; r++) dot[r][0] = dot[r][1] = _mm256_setzero_si256();
#pragma GCC unroll 2
    for (size_t k = 0; k < group; k += 4, line += LINE_BYTES) {
        _mm_prefetch((const char *)line + AHEAD, _MM_HINT_T0);
#pragma GCC unroll 2
        for (size_t h = 0; h < HALVES; h++) {
            __m256i w = _mm256_xor_si256(load_codes(line + 32 * h), flip);
            __m256i magnitude = _mm256_abs_epi8(w);
#pragma GCC unroll 4
            for (size_t r = 0; r < rows; r++) {
                __m256i x = _mm256_sign_epi8(broadcast_4_codes(codes + r * group + k), w);
                __m256i pairs = _mm256_maddubs_epi16(magnitude, x);
                dot[r][h] = _mm256_add_epi32(dot[r][h], _mm256_madd_epi16(pairs, ones));
            }
        }
    }
}

/* What a row's dots lack, as the kernels above compute them. */
INLINE int32_t correction(TensorType type, int32_t offset) {
    switch (type) {
    case TENSOR_Q4:
        return offset >> 4; /* codes are 8 too large */
    case TENSOR_Q8_MIN:
        return -offset; /* codes are 128 too small */
    default:
        return 0;
    }
}

/* One panel by a block of `rows` rows, into out[rows][2 halves]. */
INLINE void multiply_block(TensorType type, size_t rows, const Matrix *w, size_t p,
                           const uint8_t *block, __m256 (*out)[HALVES]) {
    const size_t group = type == TENSOR_Q8_64 ? 64 : 32;
    const size_t line_bytes = is_4_bit(type) ? group * 8 : group * 16;
    const uint8_t *line = matrix_panel(w, p);
    const uint16_t *scales = matrix_scales(w, p), *minima = matrix_minima(w, p);
    size_t groups = activation_groups(group, w->cols);
    __m256 acc[BLOCK_ROWS][HALVES];
#pragma GCC unroll 4
    for (size_t r = 0; r < rows; r++) acc[r][0] = acc[r][1] = _mm256_setzero_ps();
    for (size_t g = 0; g < groups; g++) {
        const float *x_scales = (const float *)block;
        const int32_t *offsets = (const int32_t *)block + rows;
        const int8_t *codes = (const int8_t *)block + 8 * rows;
        __m256i dot[BLOCK_ROWS][HALVES];
        if (is_4_bit(type)) {
            dot_4_bit(rows, line, codes, dot);
        } else {
            dot_8_bit(type == TENSOR_Q8_MIN, group, rows, line, codes, dot);
        }
#pragma GCC unroll 2
        for (size_t h = 0; h < HALVES; h++) {
            __m256 scale = load_halves(scales + g * PANEL_ROWS + 8 * h), minimum = scale;
            if (has_minima(type)) minimum = load_halves(minima + g * PANEL_ROWS + 8 * h);
#pragma GCC unroll 4
            for (size_t r = 0; r < rows; r++) {
                __m256 x_scale = _mm256_set1_ps(x_scales[r]);
                __m256i whole = _mm256_set1_epi32(correction(type, offsets[r]));
                __m256 value = _mm256_cvtepi32_ps(_mm256_add_epi32(dot[r][h], whole));
                acc[r][h] = _mm256_fmadd_ps(value, _mm256_mul_ps(scale, x_scale), acc[r][h]);
                if (!has_minima(type)) continue;
                __m256 sum = _mm256_cvtepi32_ps(_mm256_set1_epi32(-offsets[r] >> 7));
                acc[r][h] = _mm256_fnmadd_ps(sum, _mm256_mul_ps(minimum, x_scale), acc[r][h]);
            }
        }
        line += line_bytes;
        block += rows * activation_bytes(group);
    }
#pragma GCC unroll 4
    for (size_t r = 0; r < rows; r++) out[r][0] = acc[r][0], out[r][1] = acc[r][1];
}

#define BLOCK_OF(type)                                                                             \
    case type:                                                                                     \
        switch (rows) {                                                                            \
        case 1:                                                                                    \
            multiply_block(type, 1, w, p, block, out);                                             \
            break;                                                                                 \
        case 2:                                                                                    \
            multiply_block(type, 2, w, p, block, out);                                             \
            break;                                                                                 \
        case 3:                                                                                    \
            multiply_block(type, 3, w, p, block, out);                                             \
            break;                                                                                 \
        case 4:                                                                                    \
            multiply_block(type, 4, w, p, block, out);                                             \
            break;                                                                                 \
        }                                                                                          \
        break

static void multiply_block_of(size_t rows, const Matrix *w, size_t p, const uint8_t *block,
                              __m256 (*out)[HALVES]) {
    switch ((int)w->type) {
        BLOCK_OF(TENSOR_Q8);
        BLOCK_OF(TENSOR_Q8_64);
        BLOCK_OF(TENSOR_Q4);
        BLOCK_OF(TENSOR_Q4_MIN);
        BLOCK_OF(TENSOR_Q8_MIN);
    }
}

static void multiply_panel(const Product *product, const uint8_t *input, size_t n_rows, size_t p) {
    size_t group = tensor_type_info(product->w->type)->group;
    size_t row_bytes = activation_groups(group, product->w->cols) * activation_bytes(group);
    size_t blocks = block_count(n_rows, BLOCK_ROWS), outputs = panel_outputs(product->w, p);
    for (size_t b = 0; b < blocks; b++) {
        size_t start = block_start(n_rows, blocks, b);
        size_t rows = block_start(n_rows, blocks, b + 1) - start;
        __m256 sums[BLOCK_ROWS][HALVES];
        multiply_block_of(rows, product->w, p, input + start * row_bytes, sums);
        for (size_t r = 0; r < rows; r++)
            memcpy(product->out + (start + r) * product->stride + p * PANEL_ROWS, sums[r],
                   outputs * sizeof(float));
    }
}

static size_t input_bytes(size_t group, size_t n_rows, size_t n_inputs) {
    if (!group) return float_avx2.input_bytes(n_rows, n_inputs);
    return n_rows * activation_groups(group, n_inputs) * activation_bytes(group);
}

static size_t pack_tasks(size_t group, size_t n_rows) {
    return group ? n_rows : float_avx2.pack_tasks(n_rows);
}

static void pack(size_t group, const float *x, size_t n_rows, size_t n_inputs, size_t task,
                 void *input) {
    if (group) {
        pack_activation_row(group, x, n_rows, n_inputs, task, BLOCK_ROWS, input);
    } else {
        float_avx2.pack(x, n_rows, n_inputs, task, input);
    }
}

static void multiply(const Product *product, const void *input, size_t n_rows, size_t begin,
                     size_t end, void *scratch) {
    if (!tensor_type_info(product->w->type)->group) {
        float_avx2.multiply(product, input, n_rows, begin, end, scratch);
        return;
    }
    for (size_t p = begin; p < end; p++) multiply_panel(product, input, n_rows, p);
}

const Kernels kernels_avx2 = {
    .name = "avx2",
    .stripe = 4,
    .scratch_bytes = SCRATCH_BYTES,
    .input_bytes = input_bytes,
    .pack_tasks = pack_tasks,
    .pack = pack,
    .multiply = multiply,
};
