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
typedef struct AttentionObserver {
    void (*weights)(void *context, size_t layer, size_t row, size_t head, int32_t first,
                    const float *weights, size_t n);
    void *context;
} AttentionObserver;

/* Working memory for n_threads threads; NULL when there is none to be had. */
typedef struct AttentionMemory AttentionMemory;
AttentionMemory *attention_memory_new(uint32_t head_dim, int n_threads);
/* Room for the weights of queries that see up to n_positions cached positions: before an
 * attention_forward with an observer. False: there is none. */
bool attention_memory_reserve_weights(AttentionMemory *memory, size_t n_positions);
void attention_memory_free(AttentionMemory *memory);

/* One piece of work for the part that is built once for each instruction set: queries that
 * share a key/value head of one sequence, against the blocks of one segment. */
enum { ATTENTION_QUERIES = 128 };

typedef struct AttentionQuery {
    const float *q;    /* [head_dim] */
    size_t begin, end; /* the cached positions that it sees, counted from the start */
    size_t position;   /* its own, for the distance that ALiBi takes */
    float slope;       /* ALiBi; 0: none */
    float *out;        /* [head_dim filled up to lanes]: sum of exp(score - max) * value */
    float *max, *sum;  /* of the scores; of exp(score - max) */
    float *scores;     /* when not NULL, scores[i] of the position i is stored as well */
} AttentionQuery;

typedef struct AttentionJob {
    const KvCache *cache;
    int32_t sequence;
    size_t kv_head;
    size_t n_queries; /* at most ATTENTION_QUERIES */
    const AttentionQuery *queries;
    float *scratch; /* attention_scratch_floats(head_dim), 64-byte aligned */
} AttentionJob;

typedef struct AttentionKernel {
    /* Fills out, max and sum of every query from the segment's visible positions. */
    void (*segment)(const AttentionParams *params, const AttentionJob *job);
    /* Joins a later segment's result into the running one: max, sum, out[head_dim]. */
    void (*join)(float *max, float *sum, float *out, float next_max, float next_sum,
                 const float *next_out, size_t head_dim);
    /* Divides by the sum, a sink's weight (NULL: none) counted. */
    void (*finish)(float *result, float max, float sum, const float *out, const float *sink,
                   size_t head_dim);
} AttentionKernel;

size_t attention_scratch_floats(size_t head_dim);

/* out[row][n_heads * head_dim] = attention of q[row][n_heads * head_dim], whose keys and
 * values are already stored. Called by all threads of a parallel region; ends in a barrier.
 * observer: NULL, or what sees the weights, for which attention_memory_reserve_weights has made
 * room. */
void attention_forward(const AttentionKernel *kernel, AttentionMemory *memory,
                       const AttentionParams *params, const KvCache *cache,
                       const AttentionRow *rows, size_t n_rows, const float *q, float *out,
                       const AttentionObserver *observer);

extern const AttentionKernel attention_reference;
#if defined(__x86_64__)
extern const AttentionKernel attention_avx2, attention_avx512;
#elif defined(__aarch64__)
extern const AttentionKernel attention_neon;
#endif

#endif
