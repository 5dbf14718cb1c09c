/* What one layer makes of one position: the residual stream before and after each of its branches
 * (core/branch.h), what a branch reads and gives, and what attention and the feed-forward network
 * hold meanwhile. Each branch of the layer is given a kind that copies and calls its own, for this
 * text alone: the forward pass does not know of it, and the logits keep their bits. */
#ifndef LAYER_TRACE_H
#define LAYER_TRACE_H

#include "core/forward_steps.h"
#include "modes/inspect/attention_maps.h"

/* Pointers are NULL where the branch has nothing of the kind. */
typedef struct TracedBranch {
    const Branch *branch;
    float *before;   /* [dim], x when the branch's group begins */
    float *read;     /* [dim], pre(x); NULL: x itself */
    float *out;      /* [dim], with its bias and after its norm: what is added to x */
    float *added;    /* [dim], x + out, where a norm follows; else NULL */
    float *q;        /* [n_heads][head_dim], as they meet the keys */
    float *k, *v;    /* [n][n_kv_heads * head_dim], [n][n_kv_heads * value_dim] */
    float *attended; /* [n_heads][value_dim], the weighted sums of values */
    float *hidden;   /* [n_hidden], of the feed-forward network, after its activation */
    size_t n_hidden;
} TracedBranch;

/* The residual stream at one depth: before layer l, or after the last one. */
typedef struct StreamDepth {
    double size;         /* of x at the position: the root of the sum of its squares */
    double to_embedding; /* cosine of x and x before layer 0 */
    double to_neighbour; /* cosine of x and x of the position before; NaN: there is none */
    double between_all;  /* mean cosine of all pairs of positions; NaN: there is one position */
} StreamDepth;

typedef struct LayerTrace {
    AttentionMaps maps; /* of the text; `maps.scores` is there */
    size_t layer, position;
    TracedBranch *branches; /* [n_branches] */
    size_t n_branches;
    StreamDepth *depths; /* [n_layers + 1] */
    float *after;        /* [dim], x after the layer */
} LayerTrace;

/* Runs the session's prompt and fills *trace, which layer_trace_free frees in any case. `position`
 * counts the text's tokens from 0; SIZE_MAX: the last one. */
Status layer_trace_collect(LayerTrace *trace, Session *session, size_t layer, size_t position,
                           Error *error);
void layer_trace_free(LayerTrace *trace);

/* Statistics of x[n]. The variance is LayerNorm's, which divides by n. */
typedef struct VectorStatistics {
    double mean, variance;
    double size; /* the root of the sum of squares */
    double largest, smallest;
} VectorStatistics;
VectorStatistics layer_trace_statistics(const float *x, size_t n);

#endif
