/* Attention over keys and values, as most models have it (BranchKind):
 *
 *     q, k, v  = wq in, wk in, wv in        with biases, clipped, heads normalized and rotated
 *     out      = wo attention(q; the keys and values of all positions so far)
 *
 * A layer may read the keys and values of an earlier one (Config.kv_distance), and multiply the
 * heads' outputs by gates that follow from its input. */
#ifndef SELF_ATTENTION_H
#define SELF_ATTENTION_H

#include "core/forward_steps.h"

extern const BranchKind self_attention_kind;

/* What a layer's attention works in. When its `run` has returned and until another branch runs, the
 * rows hold what stands here. */
typedef struct SelfAttentionRows {
    float *q;        /* [n][n_heads * head_dim], normalized, rotated, as they meet the keys */
    float *k, *v;    /* [n][n_kv_heads * head_dim], [n][n_kv_heads * value_dim], before they are
                      * stored; not of layers that read an earlier layer's */
    float *attended; /* [n][n_heads * value_dim], of all ranks: what wo reads */
    float *gate;     /* [n][rows of attention_gate] */
} SelfAttentionRows;

/* Takes the rows of layer l from `memory`, which is as arena_rows gives it. */
SelfAttentionRows self_attention_take_rows(Rows *memory, const Model *model, size_t l);

#endif
