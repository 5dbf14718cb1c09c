/* The inner loops of layers that keep a state: a causal convolution, linear recurrences, and the
 * functions of single numbers that they need.
 *
 * Everything is computed token by token in float32, in the order that docs/numerics.md gives. Lanes
 * run across the columns of a state or across channels, never across a sum, and a block of columns
 * stays in the first-level cache while all rows of a call go through it. recurrence.c is compiled
 * once for each kind of lanes; all builds give the same bits. */
#ifndef LAYERS_STATE_RECURRENCE_H
#define LAYERS_STATE_RECURRENCE_H

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

/* Mixes some channels of rows with those of the rows before them (RWKV's token shift): out[i] = x *
 * mix[i] + before * (1 - mix[i]). */
typedef struct TokenShift {
    const float *in; /* [n_rows][channels] */
    float *state;    /* [channels], the row before the first one; becomes the last one */
    size_t channels, n_rows, n_mixes;
    const float *mix[3]; /* [channels] */
    float *out[3];       /* [n_rows][channels] */
} TokenShift;

/* Some channels of RWKV's weighted means, for the rows of one sequence: of the values v so far,
 * with the weights exp(k + decay * (rows since then)), the row's own being exp(k + first). The
 * state has the sums of weighted values and of weights, both divided by exp(maximum), and this
 * maximum. */
enum { WKV_PARTS = 3 };
typedef struct WkvScan {
    float *state;               /* [WKV_PARTS][channels, rounded up to 16]; zeros: no rows yet */
    const float *decay, *first; /* [channels] */
    size_t channels, n_rows;
    const float *k; /* [n_rows][channels] */
    float *v;       /* [n_rows][channels], becomes the means */
} WkvScan;

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
    /* The gates of a row of an RG-LRU, from their inputs: gate[n] becomes the decay d = exp(a *
     * sigmoid(gate)), with a <= 0, and x[n] becomes x * sigmoid(input) * sqrt(1 - d^2), without the
     * root in the first row of a sequence. */
    void (*lru_gates)(float *x, const float *input, float *gate, const float *a, bool first,
                      size_t n);
    /* For each row in order: x[row] = state = state * decay[row] + x[row], for the channels from
     * `begin` to `end` of state[channels] and of rows `stride` apart. */
    void (*lru)(float *state, const float *decay, float *x, size_t stride, size_t n_rows,
                size_t begin, size_t end);
    /* Both for the channels from `begin` (a multiple of 16) to `end`. */
    void (*shift)(const TokenShift *shift, size_t begin, size_t end);
    void (*wkv)(const WkvScan *scan, size_t begin, size_t end);
} Recurrence;

#define DECLARE_RECURRENCE(name, lanes) extern const Recurrence recurrence_##lanes;
EACH_ISA(DECLARE_RECURRENCE)
#undef DECLARE_RECURRENCE

#endif
