/* Attention over keys and values in bfloat16 (kvcache/bf16_page.h): both products are computed as
 * for weights of bf16_act, by the kernels of the instruction set, which may have units for
 * matrices. The keys of a page are a matrix of KV_PAGE outputs by the head's elements, and its
 * values one of the head's elements by KV_PAGE inputs, which the queries' softmax weights are
 * multiplied by. docs/numerics.md has the formulas.
 *
 * Compiled once for each kind of lanes, as attention_segment.c is, which calls it. */
#ifndef ATTENTION_BF16_H
#define ATTENTION_BF16_H

#include "core/attention.h"

typedef struct AttentionBf16Page {
    /* Rounds and packs the queries of a job. */
    void (*begin)(const AttentionParams *params, const AttentionJob *job);
    /* job->weights[i][p] = query i . key p, for the keys of a page. */
    void (*scores)(const AttentionParams *params, const AttentionJob *job, const void *keys);
    /* Adds weights[i][p] * value p of a page to outputs[n_queries]. The weights are rounded.
     * values: NULL where they are the first elements of the keys. */
    void (*add_values)(const AttentionParams *params, const AttentionJob *job, const void *keys,
                       const void *values, const PageOutput *outputs);
} AttentionBf16Page;

#define DECLARE_ATTENTION_BF16(name, lanes) extern const AttentionBf16Page attention_bf16_##lanes;
EACH_ISA(DECLARE_ATTENTION_BF16)
#undef DECLARE_ATTENTION_BF16

#endif
