#include "base/numbers.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

float numbers_half_to_float(uint16_t h) {
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = (h >> 10) & 31, mantissa = h & 1023;
    if (exponent == 31) return float_from_bits(sign | 0x7F800000u | mantissa << 13);
    if (exponent > 0) return float_from_bits(sign | (exponent + 112) << 23 | mantissa << 13);
    /* Denormal: mantissa * 2^-24, which float32 holds exactly. */
    float magnitude = (float)mantissa * 0x1p-24f;
    return sign ? -magnitude : magnitude;
}

uint16_t numbers_float_to_half(float x) {
    uint32_t bits = float_bits(x), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7FFFFFFFu;
    if (magnitude > 0x7F800000u) return (uint16_t)(sign | 0x7E00);  /* NaN */
    if (magnitude >= 0x477FE000u) return (uint16_t)(sign | 0x7BFF); /* saturates at 65504 */
    if (magnitude < 0x38800000u) {
        /* Below 2^-14 a half is a multiple of 2^-24. Adding 0.5 makes the float adder round to such
         * a multiple. */
        uint32_t rounded = float_bits(float_from_bits(magnitude) + 0.5f) - float_bits(0.5f);
        return (uint16_t)(sign | rounded);
    }
    uint32_t odd = magnitude >> 13 & 1;
    return (uint16_t)(sign | (magnitude - 0x38000000u + 0xFFF + odd) >> 13);
}

int numbers_digits(double x, int least) {
    char text[32];
    for (int digits = least; digits < 17; digits++) {
        snprintf(text, sizeof text, "%.*e", digits - 1, x);
        if (strtod(text, NULL) == x) return digits;
    }
    return 17;
}

static double double_from_bits(uint64_t u) {
    double x;
    memcpy(&x, &u, sizeof x);
    return x;
}

/* log(x) = k log(2) + log(m) for x = 2^k * m with m in [sqrt(1/2), sqrt(2)). The series of
 * log(m) = 2 artanh((m - 1) / (m + 1)) ends where its terms fall below 1e-19. */
double numbers_logarithm(double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    int64_t k = (int64_t)(bits >> 52) - 1023;
    double m = double_from_bits((bits & 0xFFFFFFFFFFFFFu) | 0x3FF0000000000000u);
    if (m > 1.4142135623730951) m *= 0.5, k++;
    double s = (m - 1.0) / (m + 1.0), square = s * s, sum = 1.0 / 25.0;
    for (int i = 23; i > 0; i -= 2) sum = fma(sum, square, 1.0 / i);
    return fma((double)k, 0.69314718055994530942, 2.0 * s * sum);
}

/* exp(x) = 2^n * exp(r), with r = x - n log(2), |r| <= log(2) / 2, by Taylor's series. */
static double exponential(double x) {
    double n = rint(x * 1.44269504088896340736);
    if (n > 1023.0) return HUGE_VAL;
    if (n < -1022.0) return 0.0;
    double r = fma(-n, 6.93147180369123816490e-01, x), sum = 1.0;
    r = fma(-n, 1.90821492927058770002e-10, r);
    for (int i = 17; i > 0; i--) sum = fma(sum * r, 1.0 / i, 1.0);
    return sum * double_from_bits((uint64_t)((int64_t)n + 1023) << 52);
}

double numbers_power(double base, double exponent) {
    return exponential(exponent * numbers_logarithm(base));
}

void numbers_sin_cos(float x, float *sine, float *cosine) {
    /* x = n * pi/2 + r, |r| <= pi/4. pi/2 is subtracted in three parts; all but the last have
     * enough trailing zero bits for n * part to be exact. */
    double n = rint((double)x * 0.63661977236758134308);
    double r = fma(n, -1.57079632673412561417e+00, (double)x);
    r = fma(n, -6.07710050630396597660e-11, r);
    r = fma(n, -2.02226624879595063154e-21, r);
    /* Taylor's series end where their terms fall below 1e-17, which rounding removes. */
    double s = r * r;
    double a = -1.0 / 1307674368000.0;
    a = fma(a, s, 1.0 / 6227020800.0);
    a = fma(a, s, -1.0 / 39916800.0);
    a = fma(a, s, 1.0 / 362880.0);
    a = fma(a, s, -1.0 / 5040.0);
    a = fma(a, s, 1.0 / 120.0);
    a = fma(a, s, -1.0 / 6.0);
    a = fma(a * s, r, r);
    double b = 1.0 / 20922789888000.0;
    b = fma(b, s, -1.0 / 87178291200.0);
    b = fma(b, s, 1.0 / 479001600.0);
    b = fma(b, s, -1.0 / 3628800.0);
    b = fma(b, s, 1.0 / 40320.0);
    b = fma(b, s, -1.0 / 720.0);
    b = fma(b, s, 1.0 / 24.0);
    b = fma(b, s, -0.5);
    b = fma(b, s, 1.0);
    switch (fabs(n) < 0x1p62 ? (int64_t)n & 3 : 0) { /* beyond, r means nothing */
    case 0:
        *sine = (float)a, *cosine = (float)b;
        break;
    case 1:
        *sine = (float)b, *cosine = (float)-a;
        break;
    case 2:
        *sine = (float)-a, *cosine = (float)-b;
        break;
    default:
        *sine = (float)-b, *cosine = (float)a;
        break;
    }
}
