/* Inputs of the rows before, for layers that read what a sequence had some positions back. The
 * state of the layer (KvLayer.state_floats) holds the last `steps` inputs; before a sequence begins
 * they are zeros.
 *
 * A pass computes x[n][width], calls delays_at for what it reads, waits until all threads have read
 * (forward_wait), and calls delays_store once. */
#ifndef LAYERS_STATE_DELAYS_H
#define LAYERS_STATE_DELAYS_H

#include "core/forward_steps.h"

typedef struct Delays {
    size_t width;
    size_t steps; /* the most that is looked back */
    size_t state; /* where the inputs begin in the layer's state, a multiple of 16 */
} Delays;

/* Floats of the layer's state, a multiple of 16. */
size_t delays_state_floats(const Delays *delays);

/* The input [width] of the position `back` <= steps before row `row`: of x[n][width], or of the
 * state. */
const float *delays_at(const ForwardPass *pass, size_t layer, const Delays *delays, const float *x,
                       size_t row, size_t back);

/* Takes x[n][width] into the state. All threads call it, and it returns when all are done. */
void delays_store(ForwardPass *pass, size_t layer, const Delays *delays, const float *x);

#endif
