/* Attention to chosen blocks of keys: MiniMax M3.
 *
 *     key[p]   = rotate(norm(index_k x))         one of index_dim elements a position
 *     query[i] = rotate(norm(index_q x))         index_heads of them
 *     score[b] = the largest query[i] . key[p] of the positions p in block b, of index_block
 *                positions, up to the query's own
 *
 * Head i of the index chooses index_topk blocks for n_heads / index_heads neighbouring query heads:
 * first the index_local last blocks, then those with the highest scores. Everything else is plain
 * attention with norms of the heads. The keys lie in the KV cache as those of one more key/value
 * head, filled up with zeros.
 *
 * Attention over chosen blocks takes them in rising order, cut where segments of the cache end, as
 * if the positions between them were masked. So it has the bits of full attention where all blocks
 * are chosen, whatever the call. */
#ifndef LAYERS_ATTENTION_BLOCKS_H
#define LAYERS_ATTENTION_BLOCKS_H

#include "core/layer_kind.h"

extern const BranchKind blocks_kind;

#endif
