/* Attention of some heads of one row to pieces of a cache that need not follow each other: chosen
 * blocks, pools, a window. All heads read the keys of one key/value head.
 *
 * The pieces are joined in the order in which they are added, each of them cut where segments of
 * its cache end (core/attention.h). So a result does not depend on which heads are computed
 * together, and positions between two pieces count as masked. */
#ifndef LAYERS_PIECES_H
#define LAYERS_PIECES_H

#include "core/forward_steps.h"

/* A thread's memory. */
typedef struct Pieces {
    float *scratch;
    float (*weights)[KV_PAGE];
    float *next, *running; /* [ATTENTION_QUERIES][stride]: partial results */
    size_t stride;
} Pieces;

/* Some heads of a row. */
typedef struct PieceHeads {
    const AttentionParams *params; /* cache_layer: of the cache that is read */
    int32_t sequence;
    size_t kv_head;
    const float *q; /* [n][head_dim] */
    size_t n;       /* at most ATTENTION_QUERIES */
} PieceHeads;

/* Floats of a thread's memory, for keys and values of at most `widest` elements: a multiple of 16.
 */
size_t pieces_floats(size_t widest);
/* The calling thread's memory, which begins at layer_threads + `offset` floats. */
Pieces pieces_of(const Model *model, size_t widest, size_t offset);

/* Begins with no position for n heads. */
void pieces_begin(const Pieces *pieces, size_t n);
/* Adds positions begin ... end - 1 of the cache, counted from the sequence's start. */
void pieces_add(const Model *model, const Pieces *pieces, const PieceHeads *heads,
                const KvCache *cache, size_t begin, size_t end);
/* The largest score of one head for these positions, which are not added. */
float pieces_largest(const Model *model, const Pieces *pieces, const PieceHeads *head,
                     const KvCache *cache, size_t begin, size_t end);
/* out[n][value_dim] = the heads' outputs; sinks[n] or NULL. */
void pieces_finish(const Model *model, const Pieces *pieces, const PieceHeads *heads,
                   const float *sinks, float *out);

#endif
