/* Dynamic mask attention (Doge): each position has a weight for each key/value head,
 *
 *     weight[p] = exp(A[kv] * softplus(step v[p]))     v: the values of all key/value heads
 *
 * which is added to the scores of the queries of that head; each query attends to the mask_keep
 * positions with the largest weights of those that it sees, of equal ones to the lowest. Everything
 * else is plain attention with norms of the heads.
 *
 * The weight is stored after the elements of a key, and 1 / attention_scale after those of a
 * query, so that the product of both adds it to the score. Weights are ranked as the cache holds
 * them. Where all positions are chosen, attention is that of core/attention.h; otherwise runs of
 * chosen positions are its pieces (layers/pieces.h).
 *
 * Preparing and attending differ from plain attention (core/forward_steps.h). */
#ifndef LAYERS_ATTENTION_DYNAMIC_MASK_H
#define LAYERS_ATTENTION_DYNAMIC_MASK_H

#include "core/layer_kind.h"

extern const BranchKind dynamic_mask_kind;

#endif
