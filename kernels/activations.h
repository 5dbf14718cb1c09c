/* Activations quantized to 8 bits, in the form that every integer kernel reads.
 *
 * The rows of x are cut into blocks of R rows (each kernel set has its own R). A block is a run of
 * groups, and a group holds
 *
 *     float   scale[R]
 *     float   sum[R]           scale * (sum of the row's codes in this group), for minima
 *     int32   offset[R]        -128 * (sum of the row's codes in this group)
 *     int8    codes[R][group]
 *
 * Kernels that multiply unsigned by signed bytes add 128 to signed weights and start their integer
 * sums at `offset`, which cancels it. Those of AVX2 keep pair_sums (activations_avx2.h) there. Each
 * kernel file compiles this header with its own instructions; the KV cache in 8 bits quantizes with
 * it as well. */
#ifndef ACTIVATIONS_H
#define ACTIVATIONS_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/numbers.h"
#include "kernels/weight_types.h"

/* Bytes of a group of one row, and the part of them before the codes. */
enum { ACTIVATION_HEADER = 2 * sizeof(float) + sizeof(int32_t) };

static inline size_t activation_bytes(size_t group) {
    return ACTIVATION_HEADER + group;
}

static inline size_t activation_groups(size_t group, size_t n_inputs) {
    return (n_inputs + group - 1) / group;
}

/* -zero * (sum of the codes) out of a group's offset: what a row's integer sum lacks when weights
 * lie `zero` (0 or a power of two) above their values. */
static inline int32_t activation_offset(uint32_t zero, int32_t offset) {
    return zero ? offset >> __builtin_ctz(128 / zero) : 0;
}

#define ACTIVATIONS_INLINE static inline __attribute__((always_inline, unused))

#if defined(__AVX512F__) && defined(__AVX512BW__)
#include "kernels/activations_avx512.h"
#else
/* The bits of the largest |x[i]|. */
ACTIVATIONS_INLINE uint32_t largest_magnitude(const float *x, size_t group) {
    uint32_t largest = 0;
    for (size_t i = 0; i < group; i++) {
        uint32_t magnitude = float_bits(x[i]) & 0x7FFFFFFFu;
        largest = magnitude > largest ? magnitude : largest;
    }
    return largest;
}

/* Rounds x[i] * inverse to codes, |code| <= 127, and returns their sum. */
ACTIVATIONS_INLINE int32_t round_to_codes(const float *x, size_t group, float inverse,
                                          int8_t *restrict codes) {
    int32_t sum = 0;
    for (size_t i = 0; i < group; i++) {
        /* Adding 1.5 * 2^23 rounds to nearest even and leaves the code in the low bits. */
        float shifted = x[i] * inverse + 12582912.0f;
        int32_t code = (int32_t)(float_bits(shifted) - float_bits(12582912.0f));
        codes[i] = (int8_t)code;
        sum += code;
    }
    return sum;
}
#endif

#ifdef ACTIVATION_PAIR_SUMS
#include "kernels/activations_avx2.h"
#endif

/* The scale of a group whose largest magnitude has the bits `largest`: NaN when an element is not
 * finite. Compared as an integer, because a NaN would get lost in comparisons of floats. */
ACTIVATIONS_INLINE float code_scale(uint32_t largest) {
    float max = float_from_bits(largest);
    if (largest >= 0x7F800000u) return NAN;
    return max >= 1e-30f ? max / 127.0f : 0.0f;
}

/* Quantizes x[group] and returns the scale. The clamp of the definition is not needed: x * (127 /
 * max) exceeds 127 by at most two rounding errors, so it rounds to 127. */
ACTIVATIONS_INLINE float quantize_group(const float *x, size_t group, int8_t *restrict codes,
                                        int32_t *restrict offset) {
    uint32_t largest = largest_magnitude(x, group);
    float scale = code_scale(largest);
    *offset = 0;
    if (scale > 0.0f) {
        *offset = -128 * round_to_codes(x, group, 127.0f / float_from_bits(largest), codes);
    } else {
        memset(codes, 0, group);
    }
    return scale;
}

/* Quantizes x[n_inputs] as the given row of a block of `rows` rows. */
ACTIVATIONS_INLINE void quantize_row(size_t group, const float *x, size_t n_inputs, size_t row,
                                     size_t rows, uint8_t *restrict block) {
    size_t stride = rows * activation_bytes(group), first = 0;
    for (; first < n_inputs; first += group, block += stride) {
        float *scale = (float *)block + row, *sum = scale + rows;
        int32_t *offset = (int32_t *)block + 2 * rows + row;
        int8_t *codes = (int8_t *)(block + ACTIVATION_HEADER * rows + row * group);
        if (first + group <= n_inputs) {
            *scale = quantize_group(x + first, group, codes, offset);
        } else {
            float last[WEIGHT_GROUP_MAX] = {0};
            memcpy(last, x + first, (n_inputs - first) * sizeof *x);
            *scale = quantize_group(last, group, codes, offset);
        }
        *sum = *offset ? *scale * (float)(*offset / -128) : 0.0f; /* no NaN from the scale */
#ifdef ACTIVATION_PAIR_SUMS
        *offset = pair_sums(codes, group);
#endif
    }
}

#endif
