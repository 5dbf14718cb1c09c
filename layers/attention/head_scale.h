/* What the queries of a head are multiplied by: scale[head] * log(position + 1) + offset[head],
 * both learned. Mistral Large 4 has it in attention and in its indexer. */
#ifndef LAYERS_ATTENTION_HEAD_SCALE_H
#define LAYERS_ATTENTION_HEAD_SCALE_H

#include "core/forward_steps.h"

typedef struct HeadScale {
    const float *scale;  /* [n_heads]; NULL: queries stay as they are */
    const float *offset; /* [n_heads] */
} HeadScale;

/* Finds the vectors "NAMEq_scale" and "NAMEq_offset", which are optional; a failure is the
 * finder's. */
HeadScale head_scale_find(Finder *finder, const char *name, size_t n_heads);

/* Multiplies q[n_heads][width] of a row at `position`. */
void head_scale_apply(const Model *model, const HeadScale *by, int32_t position, float *q,
                      size_t n_heads, size_t width);

#endif
