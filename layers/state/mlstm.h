/* Matrix LSTM (https://arxiv.org/abs/2405.04517), as xLSTM 7B has it: a state for each head that
 * decays by the forget gate and takes in k v^T by the input gate, both exponential and kept in
 * range by their running maximum; what q reads from it is divided by a normalizer, and gated after
 * a layer norm of each head. */
#ifndef LAYERS_STATE_MLSTM_H
#define LAYERS_STATE_MLSTM_H

#include "core/layer_kind.h"

extern const BranchKind mlstm_kind;

#endif
