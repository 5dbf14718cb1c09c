/* How well cached positions fit a query, by the keys of an indexer (layers/attention/indexer.h):
 *
 *     score[p] = sum over the heads in order of weight[head] * max(0, (q[head] . key[p]) * scale)
 *
 * The product is attention's: over the elements in order, or in integers for 8-bit keys, whose
 * queries are quantized as attention's are. Each step of the sum is one fma. index_scores.c is
 * compiled once for each kind of lanes; all builds give the same bits. */
#ifndef LAYERS_ATTENTION_INDEX_SCORES_H
#define LAYERS_ATTENTION_INDEX_SCORES_H

#include <stddef.h>

#include "kvcache/kv_shape.h"
#include "kernels/attention_q8.h"

typedef struct IndexQuery {
    const float *q;       /* [n_heads][dim] */
    const float *weights; /* [n_heads] */
    size_t n_heads, dim;
    float scale;
    KvType type;    /* of the keys */
    float *scratch; /* [index_scratch_floats], 64-byte aligned */
} IndexQuery;

typedef struct IndexScores {
    /* Prepares the scratch for calls of `page` with this query. */
    void (*begin)(const IndexQuery *query);
    /* scores[KV_PAGE] of the positions of one page; keys as the cache stores a head's keys. `next`:
     * the distance in bytes to the next page's keys, which are prefetched; 0: there are none. */
    void (*page)(const IndexQuery *query, const void *keys, ptrdiff_t next, float *scores);
} IndexScores;

/* Floats of a query's scratch: the products of its heads, and its codes. */
static inline size_t index_scratch_floats(size_t n_heads, size_t dim) {
    return n_heads * (KV_PAGE + q8_groups(dim) * sizeof(Q8Group) / sizeof(float));
}

#define DECLARE_INDEX_SCORES(name, lanes) extern const IndexScores index_scores_##lanes;
EACH_ISA(DECLARE_INDEX_SCORES)
#undef DECLARE_INDEX_SCORES

#endif
