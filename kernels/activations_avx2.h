/* What AVX2's integer kernels store of a group of activations in place of `offset` (activations.h).
 *
 * They add products up in two sums of 16 bits for each output: one of the inputs 0, 1, 4, 5, 8, 9
 * ..., one of the others. Weights that are raised to be unsigned add as much to each as the sum of
 * its activations times what they are raised by. */
#ifndef KERNELS_ACTIVATIONS_AVX2_H
#define KERNELS_ACTIVATIONS_AVX2_H

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

/* Less the sum of the codes 0, 1, 4, 5 ... in the lower 16 bits, of the codes 2, 3, 6, 7 ... in the
 * upper ones. */
static inline int32_t pair_sums(const int8_t *codes, size_t group) {
    __m128i sums = _mm_setzero_si128();
    for (size_t i = 0; i < group; i += 16) {
        __m128i sixteen = _mm_loadu_si128((const __m128i *)(codes + i));
        sums = _mm_sub_epi16(sums, _mm_maddubs_epi16(_mm_set1_epi8(1), sixteen));
    }
    sums = _mm_add_epi16(sums, _mm_shuffle_epi32(sums, 0x4E));
    sums = _mm_add_epi16(sums, _mm_shuffle_epi32(sums, 0xB1));
    return _mm_cvtsi128_si32(sums);
}

#endif
