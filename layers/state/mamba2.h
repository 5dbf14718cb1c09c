/* Mamba 2 (https://arxiv.org/abs/2405.21060): a causal convolution of x, B and C, a state for each
 * head that decays and takes in step * B x, and a gated norm of what C reads from it.
 *
 * mamba2_kind is a branch of it, whose weights are a Mamba2. Layers that do more find them by the
 * functions below. */
#ifndef LAYERS_STATE_MAMBA2_H
#define LAYERS_STATE_MAMBA2_H

#include "core/layer_kind.h"
#include "layers/state/state_steps.h"
#include "core/weights.h"

extern const BranchKind mamba2_kind;

/* What projections are multiplied by: all before their bias, and each after it (Falcon-H1). */
typedef enum Mamba2Scale {
    MAMBA2_IN,
    MAMBA2_Z,
    MAMBA2_X,
    MAMBA2_B,
    MAMBA2_C,
    MAMBA2_STEP,
    MAMBA2_SCALES
} Mamba2Scale;

typedef struct Mamba2 {
    Linear z, x, b, c; /* the gate, the values, what k and q are to attention */
    Linear step;       /* a row for each head */
    Linear out;
    Convolution convolution; /* of x, b and c side by side */
    const float *decay;      /* [heads], -exp(A_log) */
    const float *step_bias;  /* [heads] */
    const float *skip;       /* [heads], D */
    const float *norm;       /* [values]; NULL: the output is gated and not normalized */
    const float *scales;     /* [MAMBA2_SCALES]; NULL: none */
} Mamba2;

/* Finds the weights "mamba.*" of a layer; a failure is the finder's. */
void mamba2_find(Finder *finder, Mamba2 *weights);

/* Floats of a sequence's state, with which the state of the layer begins. */
size_t mamba2_state_floats(const Config *config);

#endif
