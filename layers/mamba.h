/* Mamba (https://arxiv.org/abs/2312.00752): a causal convolution of x, and a selective scan whose
 * steps, inputs B and outputs C are made of the convolved x. Jamba and Falcon Mamba normalize these
 * three. */
#ifndef LAYERS_MAMBA_H
#define LAYERS_MAMBA_H

#include "layer_kind.h"

extern const BranchKind mamba_layer;

#endif
