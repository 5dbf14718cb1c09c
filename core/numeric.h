/* Norms, activations and other vector operations of the forward pass.
 *
 * docs/numerics.md fixes the bits of every result: explicit fused multiply-adds, the project's own
 * exp, and reductions in 16 partial sums (element i in sum i % 16) that one fixed tree joins.
 * numeric.c is compiled once for each kind of lanes; all builds agree. */
#ifndef NUMERIC_H
#define NUMERIC_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/isa_list.h"

/* Raise this when the bits of any result change: saved work of earlier versions (cache pages, half
 * a batch) is then not continued. */
enum { NUMERIC_REVISION = 4 };

typedef enum Activation {
    ACTIVATION_SILU,
    ACTIVATION_GELU,      /* with the error function */
    ACTIVATION_GELU_TANH, /* GPT-2's approximation */
    ACTIVATION_RELU,
    ACTIVATION_GELU_QUICK, /* x * sigmoid(1.702 x) */
    ACTIVATION_SIGMOID,    /* of gates, not of feed-forwards */
    ACTIVATION_SOFTPLUS,   /* log(1 + exp(x)): gates of attention */
    ACTIVATION_RELU2,      /* max(x, 0)^2: Nemotron */
    ACTIVATION_XIELU,      /* with parameters of each layer: Apertus */
    ACTIVATIONS
} Activation;

/* The functions of one build. Arrays may have any length; `out` may be `x`. */
typedef struct Numeric {
    /* out[i] = x[i] / sqrt(mean(x^2) + eps) * weight[i]; without the weights where weight is NULL.
     */
    void (*rms_norm)(float *out, const float *x, const float *weight, size_t n, float eps);
    /* out[i] = (x[i] - mean) / sqrt(variance + eps) * weight[i] + bias[i]; weight and bias may be
     * NULL. */
    void (*layer_norm)(float *out, const float *x, const float *weight, const float *bias, size_t n,
                       float eps);
    /* x[i] = activation(x[i]), times up[i] when up is not NULL. */
    void (*activate)(Activation kind, float *x, const float *up, size_t n);
    /* x[i] = p[0] x^2 + p[2] x where x > 0, else p[1] (exp(min(x, p[3])) - 1 - x) + p[2] x: xIELU
     * (arXiv:2411.13010). */
    void (*xielu)(float *x, const float p[4], size_t n);
    /* x[i] = round(x[i] * s) / s, s = 127 / max |x| (of a max of at least 1e-5): to even, within
     * [-128, 127]. */
    void (*round_row)(float *x, size_t n);
    /* x[i] = x[i] + y[i] * scale */
    void (*add_scaled)(float *x, const float *y, float scale, size_t n);
    /* x[i] = x[i] * scale */
    void (*scale)(float *x, float scale, size_t n);
    /* x[i] = cap * tanh(x[i] / cap) */
    void (*softcap)(float *x, float cap, size_t n);
    /* x[i] = exp(x[i] - max); returns the sum of the results. */
    float (*softmax_sum)(float *x, float max, size_t n);
    /* The largest element; NaN if any element is NaN. */
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
