/* The indexer of DeepSeek Sparse Attention (DeepSeek V3.2; GLM-5): each query of a latent layer
 * attends only to the index_topk positions that the indexer ranks highest.
 *
 *     k[p]     = rotate(layer_norm(wk x))              one key of index_dim elements a position
 *     q[head]  = rotate(wq q_latent)                   index_heads of them
 *                                                      (Mistral Large 4: wq layer_norm(x), scaled
 *                                                      by head_scale.h before the rotation)
 *     score[p] = sum of weight[head] * max(0, q[head] . k[p] / sqrt(index_dim)),
 *                weight = (weights x) / sqrt(index_heads)
 *
 * The keys lie in the KV cache where other layers have values. IndexerConfig.layer says of each
 * layer whether it has an indexer or takes the choice of the layer before it.
 *
 * With Config.indexer.pool, positions are ranked in pools of so many neighbours (GLM-5 Next). A
 * pool's key is a softmax mean of its positions' keys (layers/attention/pooling.h), whose gates are
 * pool_gate x and biases pool_bias. A query chooses topk / pool of the pools that end at or before
 * its position, and sees those and the positions after the last of these pools. The pools' keys lie
 * in the cache as kvcache/pool_keys.h has it.
 *
 * A query that sees at most index_topk positions attends to all of them, as if there were no
 * indexer; with pools, one that sees at most so many pools. Otherwise the chosen positions' keys
 * are copied into a small cache (gathered.h), in order, and attention runs over that: its blocks
 * and segments count the chosen positions. So the bits depend neither on the call nor on the
 * threads. */
#ifndef LAYERS_ATTENTION_INDEXER_H
#define LAYERS_ATTENTION_INDEXER_H

#include "core/forward_steps.h"
#include "layers/attention/head_scale.h"
#include "layers/attention/pooling.h"

typedef struct Indexer {
    bool attends;      /* the layer attends to chosen positions */
    bool chooses;      /* and has an indexer of its own; only then there are weights */
    Matrix wq;         /* index_heads * index_dim x q_lora_rank, or where that is 0 x dim */
    Norm q_norm;       /* [dim], of wq's input where q_lora_rank is 0 */
    HeadScale q_scale; /* of index_heads */
    Matrix wk;         /* index_dim x dim */
    Norm k_norm;       /* [index_dim] */
    Matrix weights;    /* index_heads x dim */
    Matrix pool_gate;  /* index_dim x dim, where there are pools */
    Pooling pooling;
    size_t thread_offset; /* of the indexer's part of a thread's memory, in floats */
} Indexer;

/* Working memory of a call, n = max_rows. */
typedef struct IndexRows {
    const float *in;  /* [n][dim], the layer's input */
    float *normed;    /* [n][dim], what queries are made from where q_lora_rank is 0 */
    float *q;         /* [n][index_heads * index_dim] */
    float *k;         /* [n][index_dim] */
    float *weights;   /* [n][index_heads] */
    float *gates;     /* [n][index_dim], of the keys in their pools */
    uint32_t *chosen; /* [n][indexer_most], kept for the layers that take this layer's choice */
} IndexRows;

/* Takes q, k, weights, gates and normed; `in` and `chosen` are the caller's. */
IndexRows indexer_take(Rows *memory, const Model *model);

/* The most positions that a row attends to where it does not attend to all. */
size_t indexer_most(const Config *config);

/* Finds the layer's weights. The part of a thread's memory begins at `thread_offset` floats, a
 * multiple of 16. */
Indexer indexer_find(Finder *finder, uint32_t layer, size_t thread_offset);

/* Floats of each thread's memory; 0 for models without an indexer. */
size_t indexer_thread_floats(const Config *config);

/* Completes row `row`: the key, which it stores in the cache unless there are pools, the heads'
 * weights, and rows->normed. */
void indexer_store(ForwardPass *pass, size_t layer, const Indexer *w, const IndexRows *rows,
                   size_t row);
/* Stores the keys of the pools that the rows complete. All threads call it, and it returns when all
 * are done. */
void indexer_store_pools(ForwardPass *pass, size_t layer, const Indexer *w, const IndexRows *rows);
/* Scales and rotates the heads of row `row`. */
void indexer_rotate(const ForwardPass *pass, size_t layer, const Indexer *w, const IndexRows *rows,
                    size_t row);

/* attention_forward for all rows of the pass, each over the positions chosen for it. */
void indexer_attend(ForwardPass *pass, const Indexer *w, const IndexRows *rows,
                    const AttentionParams *params, const float *q, float *out);

#endif
