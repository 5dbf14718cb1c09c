/* Attention with a learned bias of distances, and convolutions over the positions (Inkling). With
 * y = in (Inkling 2: inputs of their own for keys and values in layers without a window, and in
 * those that read messages):
 *
 *     q, w   = wq y, relative y              w: relative_dim numbers of each head
 *     k, v   = convolution(wk y), convolution(wv y)
 *     q, k   = the heads normalized, or, with head_clip, scaled so that their norm is at most that
 *              (q's after weights of their own; w with relative_clip likewise)
 *     v      = the heads normalized without weights, with value_norm
 *     score of a position d back = scale * q . k + sum over r of w[r] * profile[r][d]
 *     out    = convolution(wo (sigmoid(gate y) * attention))
 *
 * The scale is attention_scale / head_dim, or / sqrt(head_dim) with head_clip. The bias ends at
 * relative_extent, in layers with a window at the window. In layers without one q and w are
 * multiplied by 1 + query_scaling * log(max(1, (position + 1) / query_scaling_floor)). Where there
 * is a matrix of sinks, each query has scores of its own that take weight but have no value.
 *
 * A convolution weighs the last state_kernel inputs of each element; where a layer has a matrix for
 * it, each head's taps have a part that depends on y.
 *
 * All steps of attention (core/forward_steps.h) but attending differ: projections may read inputs
 * of their own, and convolutions follow them. */
#ifndef LAYERS_ATTENTION_RELATIVE_H
#define LAYERS_ATTENTION_RELATIVE_H

#include "core/forward_steps.h"
#include "layers/state/recurrence.h"

extern const BranchKind relative_kind;

/* Whether the layer reads inputs of their own for keys and values, and where they are: [max_rows]
 * [dim] each, of the branch that `branches_append_attention` has made. */
bool relative_has_inputs(const Model *model, size_t layer);
float *relative_key_input(const Model *model, const Branch *attention);
float *relative_value_input(const Model *model, const Branch *attention);

/* The convolution of the layer's feed-forward, whose inputs are a part of the layer's state. */
Convolution relative_ffn_convolution(Finder *finder, uint32_t layer);

#endif
