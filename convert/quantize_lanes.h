/* What the two quantizers share. A sum is kept as 16 partial sums, element i in sum i % 16, which
 * are joined at the end, so that vector registers of any width give the same bits. */
#ifndef QUANTIZE_LANES_H
#define QUANTIZE_LANES_H

#include <math.h>
#include <stddef.h>

enum { LANES = 16 };

/* The compiler makes the function once for each of these instruction sets; the best that the
 * machine has is taken at run time. REGISTER_FLOATS: float32 numbers of a vector register, in AVX2
 * and in 128-bit instruction sets. (gcc takes vectors that are wider than its registers apart into
 * single numbers: of 8, "default" takes four times as long as of 4, on processors without AVX2.) */
#if defined(__x86_64__) && defined(__linux__) && !defined(WITHOUT_CLONES)
#define FOR_EACH_ISA __attribute__((target_clones("avx512f", "avx2", "default")))
enum { REGISTER_FLOATS = 8 };
#else
#define FOR_EACH_ISA
enum { REGISTER_FLOATS = 4 };
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

/* The sum of the partial sums[LANES]. */
INLINE float fold(const float *sums) {
    float sum = 0.0f;
    for (size_t l = 0; l < LANES; l++) sum += sums[l];
    return sum;
}

/* The squared error of x[n] ~ scale * q - minimum, weighted. */
INLINE float weighted_error(const float *x, const float *weight, size_t n, float scale,
                            float minimum, const float *q) {
    float sum[LANES] = {0};
    for (size_t i = 0; i < n; i += LANES)
        for (size_t l = 0; l < LANES; l++) {
            float d = x[i + l] - (scale * q[i + l] - minimum);
            sum[l] += weight[i + l] * (d * d);
        }
    return fold(sum);
}

/* The weighted sums that a line fitted to x[n] over the codes q[n] by least squares needs. */
typedef struct LineSums {
    float w, wq, wqq, wx, wxq; /* of the weights, weights times q, times q^2, ... */
} LineSums;

INLINE LineSums line_sums(const float *x, const float *weight, size_t n, const float *q) {
    float sums[5][LANES] = {{0}};
    for (size_t i = 0; i < n; i += LANES)
        for (size_t l = 0; l < LANES; l++) {
            float w = weight[i + l], value = x[i + l], code = q[i + l];
            sums[0][l] += w;
            sums[1][l] += w * code;
            sums[2][l] += w * (code * code);
            sums[3][l] += w * value;
            sums[4][l] += w * (value * code);
        }
    return (LineSums){fold(sums[0]), fold(sums[1]), fold(sums[2]), fold(sums[3]), fold(sums[4])};
}

/* 1 / mean(x^2), or 1 where that is not finite. Weights of errors are relative to it, so that
 * groups of tiny weights do not underflow. */
INLINE float inverse_mean_square(const float *x, size_t n) {
    float squares = 0.0f;
    for (size_t i = 0; i < n; i++) squares += x[i] * x[i];
    float mean = squares / (float)n;
    return mean > 0.0f && isfinite(1.0f / mean) ? 1.0f / mean : 1.0f;
}

#endif
