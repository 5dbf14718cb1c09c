/* The recurrent block of Griffin (https://arxiv.org/abs/2402.19427), as RecurrentGemma has it:
 *
 *     out(activation(y) * RG-LRU(convolution(x)))    x and y are projections of the input
 *
 * The real-gated linear recurrent unit keeps one number for each channel. Its decay and what it
 * takes in are gated by products of the convolved x with matrices of diagonal blocks. */
#ifndef LAYERS_STATE_RG_LRU_H
#define LAYERS_STATE_RG_LRU_H

#include "core/layer_kind.h"

extern const BranchKind rg_lru_kind;

#endif
