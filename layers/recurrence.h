/* The inner loops of layers that keep a state: a causal convolution, linear recurrences, and the
 * functions of single numbers that they need.
 *
 * Everything is computed token by token in float32, in the order that docs/numerics.md gives. Lanes
 * run across the columns of a state or across channels, never across a sum, and a block of columns
 * stays in the first-level cache while all rows of a call go through it. recurrence.c is compiled
 * once for each kind of lanes; all builds give the same bits. */
#ifndef LAYERS_RECURRENCE_H
#define LAYERS_RECURRENCE_H

#include <stdbool.h>
#include <stddef.h>

#include "kernels/isa_list.h"

enum {
    CONVOLUTION_MAX_KERNEL = 16,
    RECURRENT_LANES = 16,  /* columns of a block of a state */
    RECURRENT_COLUMNS = 64 /* the most columns of one RecurrentHead */
};

/* A causal convolution of each channel by itself, y[t] = bias + sum of weight[j] * x[t - kernel + 1
 * + j]. */
typedef struct Convolution {
    const float *weight; /* [kernel][channels] */
    const float *bias;   /* [channels]; NULL: zeros */
    size_t channels, kernel;
    bool silu;    /* y * sigmoid(y) */
    size_t state; /* where its inputs begin in the layer's state, a multiple of 16 */
} Convolution;

/* Some columns of one head of a linear recurrence, for the rows of one sequence. With the state S
 * [key_dim][n_columns], for each row in order:
 *
 *     S = S * decay            each row of S by its own number where decay_by_key
 *     u = beta * (v - k S)     where the state learns the difference (`delta`), else beta * v
 *     S = S + k u
 *     out = q S + skip * v     skip * v where there is a skip
 */
typedef struct RecurrentHead {
    float *state; /* [blocks of 16 columns][key_dim][16], 64-byte aligned */
    size_t key_dim;
    size_t n_columns; /* at most RECURRENT_COLUMNS */
    size_t n_rows;
    /* Each of these points to the first row; the stride leads to the next. */
    const float *q, *k; /* [key_dim] */
    size_t qk_stride;
    const float *v; /* [n_columns] */
    size_t v_stride;
    const float *decay; /* one number, or [key_dim] where decay_by_key */
    size_t decay_stride;
    const float *beta; /* one number */
    size_t beta_stride;
    float *out; /* [n_columns]; may be v */
    size_t out_stride;
    const float *skip;        /* one number for all rows; NULL: none */
    bool delta, decay_by_key; /* the latter only with the former */
} RecurrentHead;

/* Some channels of a selective scan (Mamba), for the rows of one sequence. Each channel has a state
 * of n numbers. For each row, and in it for each i < n in order:
 *
 *     S[i] = S[i] * exp(step * a[i]) + (step * x) * b[i]
 *     y = y + S[i] * c[i]
 *
 * then out = y + skip * x. */
typedef struct SelectiveScan {
    float *state;      /* [blocks of 16 channels][n][16] of all channels, 64-byte aligned */
    const float *a;    /* [n][channels] */
    const float *skip; /* [channels] */
    size_t channels, n, n_rows;
    /* Each of these points to the first row; the stride leads to the next. */
    const float *step; /* [channels] */
    size_t step_stride;
    float *x; /* [channels], becomes the output */
    size_t x_stride;
    const float *b; /* [n] */
    size_t b_stride;
    const float *c; /* [n] */
    size_t c_stride;
} SelectiveScan;

typedef struct Recurrence {
    /* Convolves x[n_rows] in place, for the channels from `begin` (a multiple of 16) to `end`.
     * state[kernel - 1][channels] holds the inputs of the rows before, oldest first. */
    void (*convolve)(const Convolution *c, float *state, float *x, size_t stride, size_t n_rows,
                     size_t begin, size_t end);
    void (*linear)(const RecurrentHead *head);
    /* Scans the channels from `begin` (a multiple of 16) to `end`. */
    void (*scan)(const SelectiveScan *scan, size_t begin, size_t end);
    /* x[n] = x * (1 / sqrt(sum of x^2 + eps)) * scale */
    void (*unit)(float *x, size_t n, float eps, float scale);
    /* x[n] = softplus(x + bias), at least `low` and at most `high`; bias NULL: zeros. softplus(x)
     * is log(1 + exp(x)), and x above 20. */
    void (*softplus)(float *x, const float *bias, float low, float high, size_t n);
    /* out[n] = exp(a[i] * x[i]); a NULL: exp(x[i]) */
    void (*decay)(float *out, const float *a, const float *x, size_t n);
    /* x[n] = x * y */
    void (*multiply)(float *x, const float *y, size_t n);
} Recurrence;

#define DECLARE_RECURRENCE(name, lanes) extern const Recurrence recurrence_##lanes;
EACH_ISA(DECLARE_RECURRENCE)
#undef DECLARE_RECURRENCE

#endif
