/* Lightning attention (https://arxiv.org/abs/2405.17381), as MiniMax-01 has it: of the activated
 * projections q, k and v, each head keeps a state that decays by a number of its own,
 *
 *     S   = S * exp(-slope) + k v
 *     out = gate(x) * norm(q S of all heads side by side)
 *
 * with a sigmoid of the gate, and then the last projection. */
#ifndef LAYERS_STATE_LIGHTNING_H
#define LAYERS_STATE_LIGHTNING_H

#include "core/layer_kind.h"

extern const BranchKind lightning_kind;

#endif
