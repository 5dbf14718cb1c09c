/* Makes the list of branches of each layer (branch.h) of a model that is being opened. */
#ifndef BRANCHES_H
#define BRANCHES_H

#include "core/forward_steps.h"

/* Allocates the list. The model's weights were found, and divided among ranks where there are
 * several. */
Status branches_new(Model *model, Error *error);

/* Fills the list, with rows that model->arena gives: called once to count them, and again when the
 * arena is allocated. */
void branches_make(Model *model);

/* The arrangement of most models: a layer is attention (or what Config.layer_kind says) and a
 * feed-forward network, with norms where Config.norm_place says. */
void branches_append_layer(Model *model, size_t layer);

/* ---- For other arrangements (layer_kind.h) ---- */

/* Appends a branch of this kind to the layer, x += f(x). The caller changes what differs. */
Branch *branches_append(Model *model, size_t layer, const BranchKind *kind);

/* Appends attention of pre(x), or what Config.layer_kind says instead, with post_attention_norm
 * where the model has it. That may be several branches: returns the first, which reads pre(x).
 * pre NULL: `in` is x, or the input of another branch. */
Branch *branches_append_attention(Model *model, size_t layer, const Norm *pre, float *in);

/* Appends the feed-forward network or the mixture of experts of pre(x), with post_ffn_norm where
 * the model has it. */
Branch *branches_append_feed_forward(Model *model, size_t layer, const Norm *pre, float *in);

/* The branch that was appended last. */
Branch *branches_last(Model *model);

/* Lets the branch read pre(x), kept in `in`; pre NULL: `in` as it is. */
void branches_set_input(Branch *branch, const Norm *pre, float *in);

/* Rows [n][dim] for the second branch of a group. All branches of a group are read before the first
 * one runs, and added after the last one has run, so that both have an input and an output of their
 * own, unless they read the same. */
float *branches_second_input(Model *model);
float *branches_second_output(Model *model);

#endif
