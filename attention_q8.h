/* Attention over keys and values that are cached in 8 bits (KV_Q8; kvcache.h has the layout).
 *
 * Both products are integer products of codes. The query is quantized as rows of activations
 * are; the weights of a block of positions, times the values' scales, to 14 bits of the largest,
 * in two halves of 7. docs/numerics.md has the formulas. Built once for each instruction set. */
#ifndef ATTENTION_Q8_H
#define ATTENTION_Q8_H

#include "attention.h"

/* A group of a query's elements in codes; the last one is filled up with zeros. */
typedef struct Q8Group {
    float scale;
    int32_t offset; /* -128 * (sum of codes) */
    int8_t codes[KV_Q8_GROUP];
} Q8Group;

static inline size_t q8_groups(size_t head_dim) {
    return (head_dim + KV_Q8_GROUP - 1) / KV_Q8_GROUP;
}

/* The weights of a query for a block, in the place of its scores[KV_PAGE]. */
typedef struct Q8Weights {
    uint8_t high[KV_PAGE], low[KV_PAGE]; /* of the code, by 128 */
    float scale;
} Q8Weights;
_Static_assert(sizeof(Q8Weights) <= KV_PAGE * sizeof(float), "weights lie where scores lay");

typedef struct AttentionQ8 {
    /* out[q8_groups(head_dim)] */
    void (*quantize)(const float *query, size_t head_dim, Q8Group *out);
    /* scores[i][p] = query i . key p for the KV_PAGE positions of the block; query i begins at
     * queries[i * q8_groups(head_dim)]. What lies `next` bytes on is fetched ahead. */
    void (*scores)(const Q8Group *queries, size_t n, const void *keys, ptrdiff_t next,
                   size_t head_dim, float (*scores)[KV_PAGE]);
    /* Replaces weights[KV_PAGE] (of which only begin ... end - 1 count) by a Q8Weights. */
    void (*weigh)(float *weights, const void *values, size_t head_dim, size_t begin, size_t end);
    /* out[i] = out[i] * factors[i] + sum over p of weight[i][p] * value[p], for the queries that
     * see anything of the block's positions begin ... end - 1. */
    void (*outputs)(const AttentionQuery *queries, size_t n, const bool *sees, const float *factors,
                    const float (*weights)[KV_PAGE], const void *values, ptrdiff_t next,
                    size_t head_dim, size_t begin, size_t end);
} AttentionQ8;

extern const AttentionQ8 attention_q8_reference;
#if defined(__x86_64__)
extern const AttentionQ8 attention_q8_avx2, attention_q8_avx512;
#elif defined(__aarch64__)
extern const AttentionQ8 attention_q8_neon;
#endif

#endif
