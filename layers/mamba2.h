/* Mamba 2 (https://arxiv.org/abs/2405.21060): a causal convolution of x, B and C, a state for each
 * head that decays and takes in step * B x, and a gated norm of what C reads from it. */
#ifndef LAYERS_MAMBA2_H
#define LAYERS_MAMBA2_H

#include "layer_kind.h"

extern const LayerKind mamba2_layer;

#endif
