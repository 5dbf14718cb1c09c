/* What the two AVX2 kernel files share: a panel's 16 outputs are two registers. */
#ifndef KERNELS_AVX2_H
#define KERNELS_AVX2_H

#include <immintrin.h>

#include "kernels/four_rows.h"

#define INLINE static inline __attribute__((always_inline))

enum { BLOCK_ROWS = 4, HALVES = 2 };

/* 8 numbers of 16 bits as floats. */
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

#endif
