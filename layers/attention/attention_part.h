/* Attention over keys and values in a layer that does more: without norms of heads, gates
 * or windows. Its input may be wider than the residual stream. */
#ifndef LAYERS_ATTENTION_ATTENTION_PART_H
#define LAYERS_ATTENTION_ATTENTION_PART_H

#include "core/forward_steps.h"

/* What q, k and v are multiplied by before their biases, and k after its bias (Falcon-H1). */
typedef enum AttentionScale { ATTENTION_IN, ATTENTION_KEY, ATTENTION_SCALES } AttentionScale;

typedef struct AttentionPart {
    Linear wq, wk, wv;   /* heads x inputs */
    Linear wo;           /* dim x heads */
    const float *scales; /* [ATTENTION_SCALES]; NULL: none */
} AttentionPart;

/* The working memory of a call: arrays of max_rows rows each. */
typedef struct AttentionPartRows {
    float *q, *k, *v;
    float *attended; /* [n_heads * value_dim] */
} AttentionPartRows;

/* Finds the weights "PREFIXwq" and so on; a failure is the finder's. */
void attention_part_find(Finder *finder, uint32_t layer, size_t inputs, AttentionPart *part);

AttentionPartRows attention_part_take(Rows *memory, const Model *model, size_t layer);

/* What the part stores in the cache. */
KvLayer attention_part_cached(const Config *config, uint32_t layer);

/* Projects in[n][inputs] to q, k and v, which the caller may change before attention_part_attend:
 * that adds scales, biases and the rotation, stores keys and values, and gives y[n][dim], without
 * the bias of wo. All threads call both, which return when all are done. */
void attention_part_project(ForwardPass *pass, const AttentionPart *part, const float *in,
                            const AttentionPartRows *rows);
void attention_part_attend(ForwardPass *pass, size_t layer, const AttentionPart *part,
                           const AttentionPartRows *rows, float *y);

/* Completes one row of what attention_part_project made: scales, biases, rotation. */
void attention_part_complete(const Model *model, size_t layer, size_t row,
                             const AttentionPart *part, float *q, float *k, float *v);

/* The part as a branch, whose weights are an AttentionPart. */
extern const BranchKind attention_part_kind;

#endif
