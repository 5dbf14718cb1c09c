/* Number formats by their bits and digits, and functions of a single number that must give the same
 * bits on every machine (docs/numerics.md). */
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

/* Conversions of float16 and bfloat16, given by their bits. numbers_float_to_half rounds to nearest
 * even, keeps NaN and saturates at +-65504, infinities included. */
float numbers_half_to_float(uint16_t h);
uint16_t numbers_float_to_half(float x);
static inline float bfloat_to_float(uint16_t b) {
    return float_from_bits((uint32_t)b << 16);
}

/* The fewest significant digits, from `least` to 17, with which printf writes a finite number that
 * strtod reads as the same one. (The program never calls setlocale for numbers.) */
int numbers_digits(double x, int least);

/* Sine and cosine of a float32 angle, |x| <= 2^30, computed in double and rounded once. */
void numbers_sin_cos(float x, float *sine, float *cosine);

/* The natural logarithm of a positive normal number, with the same bits everywhere; relative error
 * about 1e-15. */
double numbers_logarithm(double x);

/* base^exponent in double, with the same bits everywhere; relative error about 1e-15. `base` must
 * be positive and normal. */
double numbers_power(double base, double exponent);

#endif
