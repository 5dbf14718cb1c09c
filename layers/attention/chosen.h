/* Attention to chosen pools of positions, by an indexer: Qwen4-Exp.
 *
 * The heads work as in plain attention, each with its norm, and the output has gates. Each
 * index_pool neighbouring positions, counted from the sequence's start, form a pool:
 *
 *     key[i] = rotate(norm(mean of indexer.wk x over the pool))      at its first position
 *     q[h]   = rotate(norm(indexer.wq x))                            index_heads of them
 *     score  = sum over h of max(0, q[h] . key[i] / sqrt(index_dim))
 *
 * A query sees the positions of the index_topk / index_pool pools that rank highest among those
 * that end at or before its own position (layers/attention/ranking.h), and the positions after the
 * last of all these pools. The mean is that of layers/attention/pooling.h with gates of 0; the
 * pools' keys lie in the cache as kvcache/pool_keys.h has it.
 *
 * Attention takes the positions in rising order, in pieces (layers/pieces.h), as if those between
 * them were masked. So it has the bits of full attention where all pools are chosen. */
#ifndef LAYERS_ATTENTION_CHOSEN_H
#define LAYERS_ATTENTION_CHOSEN_H

#include "core/layer_kind.h"

extern const BranchKind chosen_kind;

#endif
