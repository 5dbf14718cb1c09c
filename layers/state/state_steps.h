/* What the layers that keep a state share: their place in the cache, and the convolution of all
 * rows of a call. */
#ifndef LAYERS_STATE_STATE_STEPS_H
#define LAYERS_STATE_STATE_STEPS_H

#include "core/forward_steps.h"
#include "layers/state/recurrence.h"

/* The functions built for the model's instruction set. */
const Recurrence *state_recurrence(const Model *model);

/* A layer's state holds the inputs of its convolution first, then the states of its heads. */
size_t state_convolution_floats(size_t kernel, size_t channels);
/* Floats of one head's state, [blocks of 16 columns][key_dim][16]. */
size_t state_head_floats(size_t key_dim, size_t value_dim);

/* The rows of one sequence that advance a layer's state. Where the cache wants a copy of the state
 * after some of them (kvcache_hold), they advance it in two parts. */
typedef struct StateRun {
    float *state;    /* of the layer */
    float *held;     /* where a copy of the state goes; NULL: none is wanted */
    size_t first, n; /* rows of the pass */
    size_t n_before; /* rows before the copy: n where there is none */
} StateRun;

/* The run of rows that begins at `first` and ends where another sequence begins. */
StateRun state_run(const ForwardPass *pass, size_t layer, size_t first);

/* Run Recurrence.linear, or Recurrence.scan of one block of channels, over the run's rows. The
 * state of `head` or `scan` lies within run->state. */
void state_linear(const Recurrence *recurrence, const StateRun *run, RecurrentHead head);
void state_scan(const Recurrence *recurrence, const StateRun *run, SelectiveScan scan, size_t begin,
                size_t end);

/* Recurrence.lru of the run's rows: decay[n_rows][stride] and x[n_rows][stride] begin with the
 * run's first row, `state` lies within run->state. */
void state_lru(const Recurrence *recurrence, const StateRun *run, float *state, const float *decay,
               float *x, size_t stride, size_t begin, size_t end);

/* Convolves x[n][stride] in place, whose first element is the convolution's first channel. All
 * threads call it, and it returns when all are done. */
void state_convolve(ForwardPass *pass, size_t layer, const Convolution *convolution, float *x,
                    size_t stride);

#endif
