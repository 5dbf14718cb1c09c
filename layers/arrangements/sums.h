/* Means over a vector, in the order of docs/numerics.md: 16 partial sums, element i in sum i % 16,
 * which a fixed tree joins. The product is rounded before it is added, so that any compiler's code
 * for any instruction set gives the same bits. */
#ifndef LAYERS_ARRANGEMENTS_SUMS_H
#define LAYERS_ARRANGEMENTS_SUMS_H

#include <math.h>
#include <stddef.h>

enum { SUMS = 16 };

static inline float sums_join(float sums[SUMS]) {
    for (int half = SUMS / 2; half > 0; half /= 2)
        for (int i = 0; i < half; i++) sums[i] += sums[i + half];
    return sums[0];
}

/* The mean of x[n]. Its loop over 16 elements, like the next function's, is for the compiler, which
 * makes vectors of it. */
static inline float sums_mean(const float *x, size_t n) {
    float sums[SUMS] = {0.0f};
    size_t whole = n - n % SUMS;
    for (size_t i = 0; i < whole; i += SUMS)
        for (size_t k = 0; k < SUMS; k++) sums[k] += x[i + k];
    for (size_t i = whole; i < n; i++) sums[i - whole] += x[i];
    return sums_join(sums) / (float)n;
}

/* The mean of (x[i] - center)^2. */
static inline float sums_mean_square(const float *x, float center, size_t n) {
    float sums[SUMS] = {0.0f};
    size_t whole = n - n % SUMS;
    for (size_t i = 0; i < whole; i += SUMS)
        for (size_t k = 0; k < SUMS; k++) {
            float d = x[i + k] - center;
            sums[k] += d * d;
        }
    for (size_t i = whole; i < n; i++) {
        float d = x[i] - center;
        sums[i - whole] += d * d;
    }
    return sums_join(sums) / (float)n;
}

#endif
