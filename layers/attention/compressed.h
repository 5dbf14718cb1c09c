/* Compressed attention: DeepSeek V4. A query sees a window of positions one by one, and what lies
 * in pools of `pool_rate` positions as one key for each pool.
 *
 *     q_latent = norm(wq_a x)
 *     q[head]  = rotate(q' / sqrt(mean of q'^2 + norm_eps)),  q' = wq q_latent
 *     kv[p]    = rotate(norm(wkv x))        of all heads, the key and the value in one
 *     pool[i]  = rotate(norm(the softmax mean of pool_kv x, with the gates pool_gate x))
 *
 * A pool's mean is that of layers/attention/pooling.h, and it is rotated as at its first position.
 * A query sees the pools that end at or before its own position: all of them, or in layers with an
 * indexer the index_topk that rank highest (layers/attention/ranking.h). There pools overlap, and
 * the indexer has pools of its own: index_dim wide, from indexer.wk, indexer.pool_gate and
 * indexer.k_norm.
 *
 * The last rotary_dim elements of a head are rotated. Because values are rotated keys, the end of a
 * head's output is rotated back by the query's own angles. The heads' outputs, out_groups equal
 * parts, go through wo_a[group] of out_rank outputs each, and all of these through wo.
 *
 * Attention takes the pools in order, KV_PAGE of those that the query sees at a time, then the
 * window, cut where segments of the cache end; each piece is one partial result (core/attention.h).
 * So the bits depend neither on the call nor on the threads.
 *
 * All steps of attention (core/forward_steps.h) differ. */
#ifndef LAYERS_ATTENTION_COMPRESSED_H
#define LAYERS_ATTENTION_COMPRESSED_H

#include "core/layer_kind.h"

extern const BranchKind compressed_kind;

#endif
