/* The steps that avx2.c and avx2_records.c share. Two registers hold a panel's 16 outputs. */
#ifndef KERNELS_AVX2_STEPS_H
#define KERNELS_AVX2_STEPS_H

#include <immintrin.h>

#include "kernels/four_rows.h"
#include "kernels/panel_scales.h"

#define INLINE static inline __attribute__((always_inline))

enum { BLOCK_ROWS = 4, HALVES = 2 };

/* 8 float16 numbers as floats. */
INLINE __m256 load_halves(const void *p) {
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

/* Stores the float sums of `rows` rows by one panel, of which the matrix has `outputs` outputs. */
INLINE void store_block(size_t rows, __m256 (*acc)[HALVES], float *out, size_t stride,
                        size_t outputs) {
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

#endif
