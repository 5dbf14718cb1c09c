/* Causal attention over cached keys and values.
 *
 * For one query the cached positions fall into blocks of KV_PAGE and segments of
 * ATTENTION_SEGMENT, both counted from the sequence's start. Within a segment the softmax
 * runs online over the blocks in order; segments are joined in order. The result is the same
 * whether segments were computed by one thread or by many, with one query or with hundreds.
 * A masked position is skipped: it contributes exactly nothing. docs/numerics.md has the
 * formulas. */
#ifndef ATTENTION_H
#define ATTENTION_H

#include <stdbool.h>

#include "kvcache.h"

enum { ATTENTION_SEGMENT = 1024 };

/* What one layer's attention does to its scores. */
typedef struct AttentionParams {
    size_t layer;
    uint32_t n_heads, n_kv_heads, head_dim;
    float scale;               /* scores = scale * (q . k) */
    float softcap;             /* then softcap * tanh(score / softcap); 0: none */
    uint32_t window;           /* a query sees this many positions, itself included; 0: all */
    const float *alibi_slopes; /* [n_heads], times -(distance); NULL: none */
    const float *sinks;        /* [n_heads], a score that takes weight but has no value; NULL */
} AttentionParams;

/* Where one row of queries stands. */
typedef struct AttentionRow {
    int32_t sequence;
    int32_t position;
} AttentionRow;

/* Sees every query's softmax weights: weights[n] of cached positions first ... first + n - 1.
 * Called from many threads at once; only when the model was asked to show them. */
typedef struct AttentionSink {
    void (*weights)(void *context, size_t layer, size_t row, size_t head, int32_t first,
                    const float *weights, size_t n);
    void *context;
} AttentionSink;

/* Working memory for max_rows rows, n_threads threads. */
typedef struct AttentionMemory AttentionMemory;
AttentionMemory *attention_memory_new(uint32_t n_heads, uint32_t head_dim, size_t max_rows,
                                      size_t max_positions, int n_threads);
void attention_memory_free(AttentionMemory *memory);

/* The part that is built once for each instruction set (attention.c). */
typedef struct AttentionKernel AttentionKernel;

/* out[row][n_heads * head_dim] = attention of q[row][n_heads * head_dim], whose keys and
 * values are already stored. Called by all threads of a parallel region; ends in a barrier. */
void attention_forward(const AttentionKernel *kernel, AttentionMemory *memory,
                       const AttentionParams *params, const KvCache *cache,
                       const AttentionRow *rows, size_t n_rows, const float *q, float *out,
                       const AttentionSink *sink);

extern const AttentionKernel attention_reference;
#if defined(__x86_64__)
extern const AttentionKernel attention_avx2, attention_avx512;
#elif defined(__aarch64__)
extern const AttentionKernel attention_neon;
#endif

#endif
