/* Mamba (https://arxiv.org/abs/2312.00752): a causal convolution of x, and a selective scan whose
 * steps, inputs B and outputs C are made of the convolved x. Jamba and Falcon Mamba normalize these
 * three. In Zamba the channels lie in heads (state_key_heads), whose steps, B and C are made of
 * their own channels alone.
 *
 * mamba_kind is a branch of it, whose weights are a Mamba. Layers that do more find them by the
 * functions below. */
#ifndef LAYERS_STATE_MAMBA_H
#define LAYERS_STATE_MAMBA_H

#include "core/layer_kind.h"

extern const BranchKind mamba_kind;

typedef struct Mamba Mamba;

/* Size of the weights; of memory that is aligned for any type. */
size_t mamba_bytes(const Config *config);

/* Finds the weights "mamba.*" of a layer; a failure is the finder's. */
void mamba_find(struct Finder *finder, Mamba *weights);

/* Floats of a sequence's state, with which the state of the layer begins. */
size_t mamba_state_floats(const Config *config);

#endif
