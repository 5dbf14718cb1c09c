/* Products of the quantized types with AVX2, which multiplies unsigned by signed bytes and adds
 * pairs of products in 16 bits with saturation.
 *
 * 4-bit weights are unsigned and so small that a whole group adds up in 16 bits:
 * 8 lines * 2 * 15 * 127 = 30480. 8-bit weights are split into magnitude and sign, and the sign
 * moves to the activation: a pair is at most 2 * 128 * 127 = 32512 and is widened at once. */
#include "kernels/avx2_steps.h"

/* Dots of one group of 4-bit codes, dot[row][half], as if the codes were unsigned. */
INLINE void dot_4_bit(size_t rows, const uint8_t *line, const uint8_t *ahead, const int8_t *codes,
                      __m256i (*dot)[HALVES]) {
    const __m256i low = _mm256_set1_epi8(15), ones = _mm256_set1_epi16(1);
#pragma GCC unroll 4
    for (size_t k = 0; k < 32; k += 8, line += LINE_BYTES, ahead += LINE_BYTES) {
        _mm_prefetch((const char *)ahead, _MM_HINT_T1);
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

/* Dots of one group of 8-bit codes. Unsigned codes are lowered by 128. */
INLINE void dot_8_bit(bool is_unsigned, size_t group, size_t rows, const uint8_t *line,
                      const uint8_t *ahead, const int8_t *codes, __m256i (*dot)[HALVES]) {
    const __m256i flip = _mm256_set1_epi8(is_unsigned ? -128 : 0), ones = _mm256_set1_epi16(1);
#pragma GCC unroll 4
    for (size_t r = 0; r < rows; r++) dot[r][0] = dot[r][1] = _mm256_setzero_si256();
#pragma GCC unroll 2
    for (size_t k = 0; k < group; k += 4, line += LINE_BYTES, ahead += LINE_BYTES) {
        _mm_prefetch((const char *)ahead, _MM_HINT_T1);
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

/* What to add to a row's dots, because dot_8_bit lowers unsigned codes by 128 and dot_4_bit leaves
 * 4-bit codes above their values. */
INLINE int32_t correction(TensorType type, int32_t offset) {
    switch (type) {
    case TENSOR_Q4:
        return activation_offset(8, offset);
    case TENSOR_Q8_MIN:
        return -offset;
    default:
        return 0;
    }
}

INLINE void multiply_block(TensorType type, const Matrix *w, size_t p, size_t rows,
                           const uint8_t *block, float *out, size_t stride, size_t outputs) {
    const size_t group = type_group(type);
    const uint8_t *panel = matrix_panel(w, p);
    const uint16_t *scales = matrix_scales(w, p), *minima = matrix_minima(w, p);
    const size_t groups = activation_groups(group, w->cols), panel_bytes = w->panel_bytes;
    __m256 acc[BLOCK_ROWS][HALVES];
#pragma GCC unroll 4
    for (size_t r = 0; r < rows; r++) acc[r][0] = acc[r][1] = _mm256_setzero_ps();
    for (size_t g = 0; g < groups; g++, block += rows * activation_bytes(group)) {
        const float *x_scales = (const float *)block, *x_sums = x_scales + rows;
        const int32_t *offsets = (const int32_t *)block + 2 * rows;
        const int8_t *codes = (const int8_t *)block + ACTIVATION_HEADER * rows;
        const uint8_t *line = panel + g * group_bytes(type);
        const uint8_t *ahead = fetch_ahead(type, 1, panel_bytes, panel, scales, minima, g, groups);
        __m256i dot[BLOCK_ROWS][HALVES];
        if (type_is_4_bit(type)) {
            dot_4_bit(rows, line, ahead, codes, dot);
        } else {
            dot_8_bit(is_unsigned_8(type), group, rows, line, ahead, codes, dot);
        }
#pragma GCC unroll 2
        for (size_t h = 0; h < HALVES; h++) {
            __m256 scale = load_halves(scales + g * PANEL_ROWS + 8 * h), minimum = scale;
            if (type_has_minima(type)) minimum = load_halves(minima + g * PANEL_ROWS + 8 * h);
#pragma GCC unroll 4
            for (size_t r = 0; r < rows; r++) {
                __m256 x_scale = _mm256_set1_ps(x_scales[r]);
                __m256i whole = _mm256_set1_epi32(correction(type, offsets[r]));
                __m256 value = _mm256_cvtepi32_ps(_mm256_add_epi32(dot[r][h], whole));
                acc[r][h] = _mm256_fmadd_ps(value, _mm256_mul_ps(scale, x_scale), acc[r][h]);
                if (!type_has_minima(type)) continue;
                acc[r][h] = _mm256_fnmadd_ps(_mm256_set1_ps(x_sums[r]), minimum, acc[r][h]);
            }
        }
    }
    /* Not a function of avx2_steps.h: gcc would unroll the loops above less. */
#pragma GCC unroll 4
    for (size_t r = 0; r < rows; r++) {
        if (outputs == PANEL_ROWS) {
            _mm256_storeu_ps(out + r * stride, acc[r][0]);
            _mm256_storeu_ps(out + r * stride + 8, acc[r][1]);
        } else {
            memcpy(out + r * stride, acc[r], outputs * sizeof *out);
        }
    }
}

EACH_CODE_TYPE(BLOCK_KERNEL)

static const BlockKernels block_kernels[TENSOR_TYPES] = {EACH_CODE_TYPE(BLOCK_ENTRY)};

#define FLOAT_KERNELS float_avx2
#define RECORD_KERNELS record_kernels_avx2
#include "kernels/block_table.h"

static double spin(bool integers, size_t rounds) {
    enum { SUMS = 12 };
    if (!integers) return float_avx2.spin(rounds);
    volatile int32_t zero = 0;
    const __m256i a = _mm256_set1_epi32(zero), ones = _mm256_set1_epi16(1);
    __m256i sums[SUMS];
#pragma GCC unroll 12
    for (size_t i = 0; i < SUMS; i++) sums[i] = _mm256_set1_epi32(zero + (int)i);
    for (size_t r = 0; r < rounds; r++)
#pragma GCC unroll 12
        for (size_t i = 0; i < SUMS; i++) { /* each depends on the last: nothing can be hoisted */
            __m256i pairs = _mm256_maddubs_epi16(sums[i], a);
            sums[i] = _mm256_add_epi32(sums[i], _mm256_madd_epi16(pairs, ones));
        }
#pragma GCC unroll 12
    for (size_t i = 1; i < SUMS; i++) sums[0] = _mm256_add_epi32(sums[0], sums[i]);
    zero = _mm256_extract_epi32(sums[0], 0);
    return 2.0 * 32 * SUMS * (double)rounds;
}

const Kernels kernels_avx2 = {
    .name = "avx2",
    .stripe = 4,
    .scratch_bytes = SCRATCH_BYTES,
    .input_bytes = input_bytes,
    .pack_tasks = pack_tasks,
    .pack = pack,
    .multiply = multiply,
    .spin = spin,
};
