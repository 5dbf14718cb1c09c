/* A layer between the final norm and the output head, as BERT's heads have it: the head reads
 * final_norm(gelu(dense(norm(x)))). ModernBERT's decoder. */
#ifndef LAYERS_ATTENTION_HEAD_TRANSFORM_H
#define LAYERS_ATTENTION_HEAD_TRANSFORM_H

#include "core/forward_steps.h"

typedef struct HeadTransform {
    Norm norm;
    Linear dense; /* dim x dim; without data: there is no such layer */
} HeadTransform;

/* Finds "head.dense" and "head.norm"; a failure is the finder's. */
void head_transform_find(Finder *finder, HeadTransform *transform);

/* x = gelu(dense(norm(x))), of all rows; all threads call it. */
void head_transform_run(ForwardPass *pass, const HeadTransform *transform);

#endif
