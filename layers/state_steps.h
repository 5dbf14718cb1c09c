/* What the layers that keep a state share: their place in the cache, and the convolution of all
 * rows of a call. */
#ifndef LAYERS_STATE_STEPS_H
#define LAYERS_STATE_STEPS_H

#include "forward_pass.h"
#include "layers/recurrence.h"

/* The functions built for the model's instruction set. */
const Recurrence *recurrence_of(const Model *model);

/* A layer's state holds the inputs of its convolution first, then the states of its heads. */
size_t state_convolution_floats(size_t kernel, size_t channels);
/* Floats of one head's state, [blocks of 16 columns][key_dim][16]. */
size_t state_head_floats(size_t key_dim, size_t value_dim);

/* One past the last row of the sequence that row `first` belongs to. */
size_t state_run_end(const ForwardPass *pass, size_t first);

/* Convolves x[n][stride] in place, whose first element is the convolution's first channel. All
 * threads call it, and it returns when all are done. */
void state_convolve(ForwardPass *pass, size_t layer, const Convolution *convolution, float *x,
                    size_t stride);

/* y[n][dim] = the last projection of x[n], with its bias. */
void state_project(ForwardPass *pass, const Linear *out, const float *x, float *y);

#endif
