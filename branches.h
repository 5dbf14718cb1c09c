/* Makes the list of branches of each layer (branch.h) of a model that is being opened. */
#ifndef BRANCHES_H
#define BRANCHES_H

#include "forward_pass.h"

/* Allocates the list. The model's weights were found, and divided among ranks where there are
 * several. */
Status branches_new(Model *model, Error *error);

/* Fills the list, with rows that model->arena gives: called once to count them, and again when the
 * arena is allocated. */
void branches_make(Model *model);

/* The arrangement of most models: a layer is attention (or what Config.layer_kind says) and a
 * feed-forward network, with norms where Config.norm_place says. */
void branches_list(Model *model, size_t layer);

/* ---- For other arrangements (layer_kind.h) ---- */

/* Each appends a branch of layer l that adds its output to x; the caller changes it:
 *   append        of this kind: x += f(x)
 *   attention     attention, or what Config.layer_kind says instead, of pre(x), with
 *                 post_attention_norm where the model has it. That may be several branches: returns
 *                 the first, which reads
 *   feed_forward  the feed-forward network or the mixture of experts of pre(x), with post_ffn_norm
 *                 where the model has it
 *   last          returns the last branch that was appended
 * pre NULL: `in` is x, or the input of another branch. */
Branch *branches_append(Model *model, size_t layer, const BranchKind *kind);
Branch *branches_attention(Model *model, size_t layer, const Norm *pre, float *in);
Branch *branches_feed_forward(Model *model, size_t layer, const Norm *pre, float *in);
Branch *branches_last(Model *model);

/* Lets the branch read pre(x), or `in` as it is. */
void branches_read(Branch *branch, const Norm *pre, float *in);

/* Rows [n][dim] for the second branch of a group. All branches of a group are read before the first
 * one runs, and added after the last one has run, so that both have an input and an output of their
 * own, unless they read the same. */
float *branches_second_input(Model *model);
float *branches_second_output(Model *model);

#endif
