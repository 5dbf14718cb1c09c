/* Number formats by their bits, and the functions of one number that must give the same bits on
 * every machine (docs/numerics.md). */
#ifndef NUMBERS_H
#define NUMBERS_H

#include <stdint.h>
#include <string.h>

static inline uint32_t float_bits(float x) {
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

static inline float float_from_bits(uint32_t u) {
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

/* float16 and bfloat16, by their bits. Towards 16 bits: round to nearest even; float16
 * saturates at +-65504 instead of overflowing (infinities too), NaN stays NaN. */
float half_to_float(uint16_t h);
uint16_t float_to_half(float x);
static inline float bfloat_to_float(uint16_t b) {
    return float_from_bits((uint32_t)b << 16);
}
uint16_t float_to_bfloat(float x);

/* sin and cos of a float32 angle, computed in double and rounded once. |x| <= 2^30. */
void sin_cos(float x, float *sine, float *cosine);

/* base^exponent in double, the same bits everywhere; to about 1e-15. base > 0 and normal. */
double power(double base, double exponent);

#endif
