/* RWKV 4 (https://arxiv.org/abs/2305.13048): a layer of time mixing, whose channels keep a weighted
 * mean of their values, and of channel mixing, a gated feed-forward. Both read each row mixed with
 * the row before it (token shift). */
#ifndef LAYERS_STATE_RWKV_H
#define LAYERS_STATE_RWKV_H

#include "core/layer_kind.h"

extern const BranchKind rwkv_kind;

#endif
