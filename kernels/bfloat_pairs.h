/* The operations of AVX512-BF16, as avx512_bf16.c uses them. A Pairs is 32 bfloat16 weights: for
 * each of 16 outputs an earlier input (the upper half of 32 bits) and a later one.
 *
 *     pairs_even(a, b), pairs_odd(a, b)   the even, or odd, inputs of two neighbouring lines
 *     pairs_load(memory), pairs_store(memory, pairs)
 *     pairs_dot(sum, pairs, x)            to each sum adds the earlier product, then the later one,
 *                                         each step one fma; x holds both activations, in the same
 *                                         order. Denormal numbers count as 0
 *
 * With BFLOAT_PAIRS_EMULATED they are plain C, so that the tests can check avx512_bf16.c on
 * machines without the instruction. */
#ifndef BFLOAT_PAIRS_H
#define BFLOAT_PAIRS_H

#include "kernels/lanes.h"

#ifdef BFLOAT_PAIRS_EMULATED

typedef struct Pairs {
    uint32_t v[LANES];
} Pairs;

static inline Pairs pairs_load(const void *memory) {
    Pairs pairs;
    memcpy(&pairs, memory, sizeof pairs);
    return pairs;
}
static inline void pairs_store(void *memory, Pairs pairs) {
    memcpy(memory, &pairs, sizeof pairs);
}
static inline Pairs pairs_even(const void *a, const void *b) {
    Pairs first = pairs_load(a), second = pairs_load(b);
    for (int i = 0; i < LANES; i++) first.v[i] = first.v[i] << 16 | (second.v[i] & 0xFFFF);
    return first;
}
static inline Pairs pairs_odd(const void *a, const void *b) {
    Pairs first = pairs_load(a), second = pairs_load(b);
    for (int i = 0; i < LANES; i++) first.v[i] = (first.v[i] & 0xFFFF0000u) | second.v[i] >> 16;
    return first;
}
static inline float pairs_flushed(float x) {
    return fabsf(x) < 0x1p-126f ? copysignf(0.0f, x) : x;
}
static inline lanes pairs_dot(lanes sum, Pairs pairs, uint32_t x) {
    float v[LANES];
    lanes_store(v, sum);
    for (int i = 0; i < LANES; i++)
        for (int later = 0; later < 2; later++) {
            uint32_t w_bits = later ? pairs.v[i] << 16 : pairs.v[i] & 0xFFFF0000u;
            uint32_t x_bits = later ? x << 16 : x & 0xFFFF0000u;
            v[i] = pairs_flushed(fmaf(pairs_flushed(float_from_bits(w_bits)),
                                      pairs_flushed(float_from_bits(x_bits)), pairs_flushed(v[i])));
        }
    return lanes_load(v);
}

#else

typedef __m512i Pairs;

LANES_INLINE Pairs pairs_load(const void *memory) {
    return _mm512_load_si512(memory);
}
LANES_INLINE void pairs_store(void *memory, Pairs pairs) {
    _mm512_store_si512(memory, pairs);
}
LANES_INLINE Pairs pairs_even(const void *a, const void *b) {
    return _mm512_mask_blend_epi16(0xAAAAAAAAu, pairs_load(b),
                                   _mm512_slli_epi32(pairs_load(a), 16));
}
LANES_INLINE Pairs pairs_odd(const void *a, const void *b) {
    return _mm512_mask_blend_epi16(0xAAAAAAAAu, _mm512_srli_epi32(pairs_load(b), 16),
                                   pairs_load(a));
}
LANES_INLINE lanes pairs_dot(lanes sum, Pairs pairs, uint32_t x) {
    return _mm512_dpbf16_ps(sum, (__m512bh)_mm512_set1_epi32((int)x), (__m512bh)pairs);
}

#endif
#endif
