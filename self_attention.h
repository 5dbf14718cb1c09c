/* Attention over keys and values, as most models have it (BranchKind):
 *
 *     q, k, v  = wq in, wk in, wv in        with biases, clipped, heads normalized and rotated
 *     out      = wo attention(q; the keys and values of all positions so far)
 *
 * A layer may read the keys and values of an earlier one (Config.kv_distance), and multiply the
 * heads' outputs by gates that follow from its input. */
#ifndef SELF_ATTENTION_H
#define SELF_ATTENTION_H

#include "forward_pass.h"

extern const BranchKind self_attention_kind;

#endif
