/* The element-wise half of the forward pass.
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

#include "kernels/isa_list.h"

/* Raised when the bits of any result change: what earlier versions computed (pages of a cache, half
 * of a batch) is not gone on with. */
enum { NUMERIC_REVISION = 2 };

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

#define DECLARE_NUMERIC(name, lanes) extern const Numeric numeric_##lanes;
EACH_ISA(DECLARE_NUMERIC)
#undef DECLARE_NUMERIC

#endif
