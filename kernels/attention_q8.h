/* Keys and values in 8 bits: how a page of the KV cache stores one head of them, and the products
 * that attention makes of a page. docs/numerics.md has the formulas.
 *
 * A page holds Q8_PAGE positions. Four neighbours along the axis that a product sums over lie
 * together:
 *
 *     keys     int8 codes[head_dim / 4, rounded up][Q8_PAGE][4]
 *              float scales[head_dim / Q8_GROUP, rounded up][Q8_PAGE]
 *     values   int8 codes[Q8_PAGE / 4][head_dim, rounded up to 16][4]
 *              float scales[Q8_PAGE]
 *
 * A key has one scale for each group of Q8_GROUP elements; a value has one scale. An element is
 * scale * code, rounded as activations are.
 *
 * Where the values are the first elements of the keys (latent attention), a page has keys alone,
 * and both products read their codes.
 *
 * Both products are sums of integers. Queries are quantized as keys are. The weights of a page's
 * positions, each multiplied by its value's scale, are rounded to 14 bits of the largest and split
 * into two halves of 7 bits.
 *
 * `next` is the distance in bytes from the given keys or values to those of the next page; 0 when
 * there is no next page. It is prefetched a few lines at a time during all steps of a page: a core
 * can wait for some 20 lines, and when more are asked for at once, its loads wait behind them. Half
 * of the keys belong to the scores (none with many queries), the rest to the softmax
 * (q8_prefetch_keys); the values belong to the products that read values. */
#ifndef ATTENTION_Q8_H
#define ATTENTION_Q8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "kernels/isa_list.h"

enum { Q8_PAGE = 64, Q8_GROUP = 32 };

static inline size_t q8_groups(size_t head_dim) {
    return (head_dim + Q8_GROUP - 1) / Q8_GROUP;
}

/* Bytes of one position's key, or value, of one head. */
static inline size_t q8_key_bytes(size_t head_dim) {
    return round_up(head_dim, 4) + q8_groups(head_dim) * sizeof(float);
}
static inline size_t q8_value_bytes(size_t head_dim) {
    return round_up(head_dim, 16) + sizeof(float);
}

static inline size_t q8_scratch_bytes(size_t value_dim) {
    return round_up(value_dim, 16) * Q8_PAGE;
}

/* At most so many queries make a page so fast that its lines are needed in the first-level cache.
 * With more, they are prefetched into the second level, one or two for each query. */
enum { Q8_FEW_QUERIES = 16 };

/* Prefetches `n` lines of what lies at `at`, from line `first` on, but none from line `end` on.
 * Inlined always, because gcc removes calls of functions that do nothing else. */
static inline __attribute__((always_inline)) void q8_prefetch(const void *at, bool few,
                                                              size_t first, size_t n, size_t end) {
    for (size_t i = first; i < first + n && i < end; i++) {
        if (few)
            __builtin_prefetch((const char *)at + 64 * i, 0, 3);
        else
            __builtin_prefetch((const char *)at + 64 * i, 0, 2);
    }
}

/* Prefetches the part of the next page's keys that belongs to the softmax of query i of n. */
static inline __attribute__((always_inline)) void q8_prefetch_keys(const void *keys, ptrdiff_t next,
                                                                   size_t head_dim, size_t i,
                                                                   size_t n) {
    _Static_assert((int)Q8_PAGE == 64, "as many lines as a key has bytes");
    bool few = n <= Q8_FEW_QUERIES;
    size_t first = few ? round_up(head_dim, 4) / 2 : 0, end = q8_key_bytes(head_dim);
    size_t each = (end - first) / n + 1;
    if (next) q8_prefetch((const char *)keys + next, few, first + each * i, each, end);
}

/* One group of a query's elements; the last group is padded with zeros. */
typedef struct Q8Group {
    float scale;
    int32_t offset; /* -128 * (sum of codes) */
    int8_t codes[Q8_GROUP];
} Q8Group;

/* What one query adds up from a page:
 * out = out * factor + sum over the positions begin ... end - 1 of weight * value. */
typedef struct PageOutput {
    float *out;   /* [head_dim, padded to 16] */
    float factor; /* what the outputs of earlier pages are multiplied by first */
    size_t begin,
        end; /* the positions of the page that the query sees; empty: out stays as it is */
} PageOutput;

typedef struct AttentionQ8 {
    /* Write key[head_dim] or value[head_dim] to position `slot` of a page. */
    void (*store_key)(void *keys, size_t head_dim, size_t slot, const float *key);
    void (*store_value)(void *values, size_t head_dim, size_t slot, const float *value);
    /* out[q8_groups(head_dim)] = query[head_dim] in codes. */
    void (*quantize)(const float *query, size_t head_dim, Q8Group *out);
    /* scores[i][p] = query i . key p for all positions p of the page; query i begins at
     * queries[i * q8_groups(head_dim)]. */
    void (*scores)(const Q8Group *queries, size_t n, const void *keys, ptrdiff_t next,
                   size_t head_dim, float (*scores)[Q8_PAGE]);
    /* Adds the page's values to outputs[n], weight[i][p] times value p. Overwrites the weights. */
    void (*add_values)(const PageOutput *outputs, size_t n, float (*weights)[Q8_PAGE],
                       const void *values, ptrdiff_t next, size_t head_dim);
    /* The same where value p is the first value_dim elements of key p. Keeps the weights. scratch:
     * q8_scratch_bytes(value_dim). */
    void (*add_key_values)(const PageOutput *outputs, size_t n, float (*weights)[Q8_PAGE],
                           const void *keys, size_t key_dim, size_t value_dim, int8_t *scratch);
} AttentionQ8;

#define DECLARE_ATTENTION_Q8(name, lanes) extern const AttentionQ8 attention_q8_##lanes;
EACH_ISA(DECLARE_ATTENTION_Q8)
#undef DECLARE_ATTENTION_Q8

#endif
