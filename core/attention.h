/* Causal attention over cached keys and values.
 *
 * For one query the cached positions fall into blocks of KV_PAGE and segments of
 * ATTENTION_SEGMENT, both counted from the sequence's start. Within a segment an online softmax
 * (FlashAttention's, arXiv:2205.14135) takes the blocks in order; then the segments are joined in
 * order. The result has the same bits whether one thread computed all segments or several did, for
 * one query or for hundreds. A masked position is skipped and contributes exactly nothing.
 * docs/numerics.md has the formulas.
 *
 * attention.c divides the work among threads; attention_segment.c computes it. */
#ifndef ATTENTION_H
#define ATTENTION_H

#include <stdbool.h>

#include "core/model_row.h"
#include "kernels/attention_q8.h"
#include "kernels/matmul.h"
#include "kvcache.h"

enum { ATTENTION_SEGMENT = 1024 };

/* A learned bias of distances. To the score of a position d < extent back, for the query q (of
 * attention_forward) of a row and head, is added the sum over r of weights[row][head][r] * profile
 * r at d. */
typedef struct RelativeBias {
    const float *weights; /* [n_rows][n_heads][dim] */
    const float *q;       /* the queries of attention_forward: a query's place gives its weights' */
    const float *profiles; /* [dim][KV_PAGE zeros, the distances from the largest to 0, KV_PAGE
                            * zeros]: in the order of positions, readable a page beyond both ends */
    size_t dim, extent;
} RelativeBias;

/* How one layer computes and modifies its attention scores. */
typedef struct AttentionParams {
    size_t layer;       /* for observers */
    size_t cache_layer; /* the layer whose keys and values are read: `layer`, or an earlier one */
    uint32_t n_heads, n_kv_heads;
    uint32_t head_dim;  /* of queries and keys */
    uint32_t value_dim; /* of values and outputs */
    float scale;        /* scores = scale * (q . k) */
    float softcap;      /* then softcap * tanh(score / softcap); 0: none */
    uint32_t window;    /* a query sees this many positions, itself included; 0: all */
    uint32_t chunk;     /* a query sees no position before the last multiple of this; 0: all */
    const float *alibi_slopes; /* [n_heads], times -(distance); NULL: none */
    const float *sinks; /* [n_heads], scores that take weight but have no value; NULL: none */
    size_t sink_stride; /* floats to the sinks of the next row; 0: all rows have the same */
    const RelativeBias *relative; /* NULL: none */
} AttentionParams;

/* The sequence and position of one row of queries. */
typedef struct AttentionRow {
    int32_t sequence;
    int32_t position;
} AttentionRow;

/* Working memory for n_threads threads and sequences of up to n_positions positions (the memory
 * that grows with n_positions is touched for observers alone); NULL when there is not enough. The
 * kernels multiply keys and values in bfloat16 (core/attention_bf16.h), with the scratch that their
 * memory `products` has for as many threads and that is free meanwhile. */
typedef struct AttentionMemory AttentionMemory;
AttentionMemory *attention_memory_new(const Kernels *kernels, const MatmulMemory *products,
                                      uint32_t head_dim, size_t n_positions, int n_threads);
void attention_memory_free(AttentionMemory *memory);

/* ---- What is built once for each instruction set ---- */

/* The result of one query for some of its positions, PARTIAL_OUT + value_dim floats, padded to a
 * multiple of 16. partial[PARTIAL_MAX]: the largest score; partial[PARTIAL_SUM]: the sum of
 * exp(score - max); from partial[PARTIAL_OUT] on: the sum of exp(score - max) * value. */
enum { PARTIAL_MAX, PARTIAL_SUM, PARTIAL_OUT = 16 };

enum { ATTENTION_QUERIES = 128 }; /* the most of one job */

typedef struct AttentionQuery {
    const float *q;    /* [head_dim] */
    size_t begin, end; /* the positions that it sees, counted from the sequence's start */
    size_t position;   /* the query's own position, from which ALiBi takes distances */
    float slope;       /* ALiBi; 0: none */
    float *partial;    /* receives the result */
    float *scores;     /* when not NULL, scores[i] receives the score of position i */
} AttentionQuery;

/* Where values are bfloat16, they are multiplied so many elements of the head at a time: the
 * products of all queries of a job then stay in the cache. */
enum { ATTENTION_BF16_OUTPUTS = 64 };

/* A thread's memory for keys and values in bfloat16 (core/attention_bf16.h). */
typedef struct AttentionBf16 {
    const Kernels *kernels;
    void *q;          /* the job's queries, packed as the kernels read them */
    void *weights;    /* the weights of a page, packed likewise */
    float *rows;      /* queries to be packed, or the products of weights and values */
    uint16_t *values; /* values that a page does not hold as the product reads them */
    void *scratch;    /* of the kernels */
} AttentionBf16;

/* The calling thread's. */
AttentionBf16 attention_bf16_of(const AttentionMemory *memory);

/* Queries that share a key/value head of one sequence, and the positions of one segment. */
typedef struct AttentionJob {
    const KvCache *cache;
    int32_t sequence;
    size_t kv_head;
    size_t n_queries; /* at most ATTENTION_QUERIES */
    const AttentionQuery *queries;
    void *scratch;             /* 64-byte aligned; holds keys or values as floats, or Q8Groups */
    float (*weights)[KV_PAGE]; /* [n_queries], scratch for the weights of one block */
    const AttentionBf16 *bf16;
} AttentionJob;

typedef struct AttentionKernel {
    /* Computes attention over one segment of the cache: the partial result of every query. */
    void (*segment)(const AttentionParams *params, const AttentionJob *job);
    /* Adds the partial result of a later segment to that of earlier ones. */
    void (*join)(float *partial, const float *later, size_t value_dim);
    /* result[value_dim] = the output of a partial result for all positions: divided by the sum,
     * which counts the attention sink's weight (NULL: none). */
    void (*finish)(float *result, const float *partial, const float *sink, size_t value_dim);
} AttentionKernel;

/* out[row][n_heads * value_dim] = attention of q[row][n_heads * head_dim], whose keys and values
 * are already stored. Called by all threads of a parallel region; returns when all are done.
 * observers: a list of those who receive scores and weights; NULL: nobody looks. */
void attention_forward(const AttentionKernel *kernel, AttentionMemory *memory,
                       const AttentionParams *params, const KvCache *cache,
                       const AttentionRow *rows, size_t n_rows, const float *q, float *out,
                       PassObserver *observers);

/* For segments of layers whose values are the first elements of their keys: both for all queries of
 * the job and one page, whose keys are given. */
typedef struct LatentPage {
    /* job->weights[i][p] = query i . key p. Prefetches the keys `next` bytes further. */
    void (*scores)(const AttentionParams *params, const AttentionJob *job, const void *keys,
                   ptrdiff_t next);
    /* Adds weights[i][p] * value p to outputs[n_queries]. */
    void (*add_values)(const AttentionParams *params, const AttentionJob *job, const void *keys,
                       const PageOutput *outputs);
} LatentPage;

/* Filled in by attention_segment.c and layers/attention/latent_page.c. */
#define DECLARE_ATTENTION(name, lanes)                                                             \
    extern const AttentionKernel attention_##lanes;                                                \
    extern const LatentPage latent_page_##lanes;
EACH_ISA(DECLARE_ATTENTION)
#undef DECLARE_ATTENTION

#endif
