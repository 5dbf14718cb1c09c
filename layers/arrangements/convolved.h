/* Feed-forwards whose output goes through a causal convolution over the positions, in layers with
 * attention as layers/attention/relative.h has it. */
#ifndef LAYERS_ARRANGEMENTS_CONVOLVED_H
#define LAYERS_ARRANGEMENTS_CONVOLVED_H

#include "layers/arrangements/arrangements.h"
#include "layers/state/recurrence.h"

/* The convolution of layer `layer`, [dim] channels; a failure is the finder's. */
void convolved_find(Finder *finder, uint32_t layer, Convolution *convolution);

/* Appends the layer's feed-forward or mixture as branches_append_feed_forward does, with the
 * convolution after it, which must live as long as the model. */
Branch *convolved_append(Model *model, size_t layer, const Norm *pre, float *in,
                         const Convolution *convolution);

#endif
