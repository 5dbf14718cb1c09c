/* What layers have in common whose indexer chooses the positions that their query heads attend to
 * (layers/attention/blocks.h, layers/attention/chosen.h): the heads of plain attention with norms
 * of q and k, and an indexer with queries and keys of its own. */
#ifndef LAYERS_ATTENTION_INDEXED_HEADS_H
#define LAYERS_ATTENTION_INDEXED_HEADS_H

#include "core/attention.h"
#include "core/weights.h"

typedef struct IndexedHeads {
    Linear wq, wk, wv, wo;
    Norm q_norm, k_norm;             /* [head_dim], of each head */
    Matrix index_q, index_k;         /* index_heads * index_dim x dim, index_dim x dim */
    Norm index_q_norm, index_k_norm; /* [index_dim], of each head */
} IndexedHeads;

/* Finds the weights of a layer. A missing one is the finder's error. */
void indexed_heads_find(Finder *f, uint32_t layer, IndexedHeads *heads);

/* Attention of such a layer: causal, without window, softcap and sinks. */
AttentionParams indexed_heads_params(const Config *config, uint32_t layer);

/* The widest key or value of a head, of all layers of a kind. */
size_t indexed_heads_widest(const Config *config, LayerKindNumber kind);

#endif
