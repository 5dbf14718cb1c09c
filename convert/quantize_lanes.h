/* What the two quantizers share. Loops run over 16 lanes, and sums are 16 partial ones joined at
 * the end, so that vector registers of any width give the same bits. */
#ifndef FORMATS_QUANTIZE_LANES_H
#define FORMATS_QUANTIZE_LANES_H

#include <math.h>

#include "convert/quantize.h"

enum { LANES = 16 };

/* The compiler makes the function once for each of these, and the machine chooses. */
#if defined(__x86_64__) && defined(__linux__) && !defined(WITHOUT_CLONES)
#define FOR_EACH_ISA __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define FOR_EACH_ISA
#endif
#define INLINE static inline __attribute__((always_inline))

/* Round to nearest even, for |x| < 2^22. */
INLINE float round_even(float x) {
    return (x + 12582912.0f) - 12582912.0f;
}

INLINE float clamp(float x, float low, float high) {
    x = x > low ? x : low;
    return x < high ? x : high;
}

INLINE float fold(const float *sums) {
    float sum = 0.0f;
    for (size_t l = 0; l < LANES; l++) sum += sums[l];
    return sum;
}

/* 1 / mean(x^2), relative to which errors count, so that groups of tiny weights do not underflow.
 */
INLINE float inverse_mean_square(const float *x, size_t n) {
    float squares = 0.0f;
    for (size_t i = 0; i < n; i++) squares += x[i] * x[i];
    float mean = squares / (float)n;
    return mean > 0.0f && isfinite(1.0f / mean) ? 1.0f / mean : 1.0f;
}

#endif
