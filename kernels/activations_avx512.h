/* The vector loops of activations.h with AVX-512; the same bits. Included by
 * activations.h, which defines ACTIVATIONS_INLINE. */
#ifndef ACTIVATIONS_AVX512_H
#define ACTIVATIONS_AVX512_H

#include <immintrin.h>

ACTIVATIONS_INLINE uint32_t largest_magnitude(const float *x, size_t group) {
    __m512i largest = _mm512_setzero_si512(), mask = _mm512_set1_epi32(0x7FFFFFFF);
    for (size_t i = 0; i < group; i += 16)
        largest = _mm512_max_epu32(largest, _mm512_and_si512(_mm512_loadu_si512(x + i), mask));
    return _mm512_reduce_max_epu32(largest);
}

ACTIVATIONS_INLINE int32_t round_to_codes(const float *x, size_t group, float inverse,
                                          int8_t *restrict codes) {
    __m512i sum = _mm512_setzero_si512();
    for (size_t i = 0; i < group; i += 16) {
        __m512 scaled = _mm512_mul_ps(_mm512_loadu_ps(x + i), _mm512_set1_ps(inverse));
        __m512i code = _mm512_cvtps_epi32(scaled); /* rounds to nearest even */
        _mm_storeu_si128((__m128i *)(codes + i), _mm512_cvtsepi32_epi8(code));
        sum = _mm512_add_epi32(sum, code);
    }
    return _mm512_reduce_add_epi32(sum);
}

#endif
