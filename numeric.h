/* Number formats and the element-wise half of the forward pass.
 *
 * The bits of every result are fixed by docs/numerics.md: explicit fused multiply-adds, the
 * project's own exp, and reductions in 16 partial sums (element i in sum i % 16) joined by
 * one fixed tree. numeric.c is built once for each instruction set; all builds agree. */
#ifndef NUMERIC_H
#define NUMERIC_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Raised when the bits of any result change: what earlier versions computed (pages of a cache, half
 * of a batch) is not gone on with. */
enum { NUMERIC_REVISION = 2 };

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

typedef enum Activation {
    ACTIVATION_SILU,
    ACTIVATION_GELU,      /* with the error function */
    ACTIVATION_GELU_TANH, /* GPT-2's approximation */
    ACTIVATION_RELU,
    ACTIVATION_GELU_QUICK, /* x * sigmoid(1.702 x) */
    ACTIVATIONS
} Activation;

/* One table an instruction set. Arrays may have any length; `out` may be `x`. */
typedef struct Numeric {
    /* out[i] = x[i] / sqrt(mean(x^2) + eps) * weight[i]; weight NULL: ones. */
    void (*rms_norm)(float *out, const float *x, const float *weight, size_t n, float eps);
    /* out[i] = (x[i] - mean) / sqrt(variance + eps) * weight[i] + bias[i]; either NULL. */
    void (*layer_norm)(float *out, const float *x, const float *weight, const float *bias, size_t n,
                       float eps);
    /* x[i] = activation(x[i]), times up[i] when up is not NULL. */
    void (*activate)(Activation kind, float *x, const float *up, size_t n);
    /* x[i] = x[i] + y[i] * scale */
    void (*add_scaled)(float *x, const float *y, float scale, size_t n);
    /* x[i] = x[i] * scale */
    void (*scale)(float *x, float scale, size_t n);
    /* x[i] = cap * tanh(x[i] / cap) */
    void (*softcap)(float *x, float cap, size_t n);
    /* x[i] = exp(x[i] - max), returns their sum. */
    float (*softmax_sum)(float *x, float max, size_t n);
    /* The largest element; NaN when there is one. */
    float (*maximum)(const float *x, size_t n);
    /* True when every element is finite. */
    bool (*all_finite)(const float *x, size_t n);
    /* Rotates pairs of x by the angles: pairs (i, i + n_pairs) or, interleaved, (2i, 2i + 1). */
    void (*rotate)(float *x, const float *cosine, const float *sine, size_t n_pairs,
                   bool interleaved);
} Numeric;

extern const Numeric numeric_reference;
#if defined(__x86_64__)
extern const Numeric numeric_avx2, numeric_avx512;
#elif defined(__aarch64__)
extern const Numeric numeric_neon;
#endif

#endif
