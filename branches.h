/* Makes the list of branches of each layer (branch.h) of a model that is being opened. */
#ifndef BRANCHES_H
#define BRANCHES_H

#include "forward_pass.h"

/* Fills model->branches. The model's weights were found, and divided among ranks where there are
 * several; its working memory is there. */
Status branches_make(Model *model, Error *error);

/* The arrangement of most models: a layer is attention (or what Config.layer_kind says) and a
 * feed-forward network, with norms where Config.norm_place says. */
void branches_list(Model *model, size_t layer);

/* ---- For other arrangements (layer_kind.h) ---- */

/* Each appends a branch of layer l that reads x as it is and adds its output to x; the caller
 * changes it:
 *   append        of this kind: x += f(x)
 *   mix           attention, or what Config.layer_kind says, with the norm after it
 *   feed_forward  the feed-forward network or the mixture of experts, with the norm after it */
Branch *branches_append(Model *model, size_t layer, const BranchKind *kind);
Branch *branches_mix(Model *model, size_t layer);
Branch *branches_feed_forward(Model *model, size_t layer);

/* Lets the branch read `in`: pre(x), or without a norm the input of another branch. */
void branches_read(Branch *branch, const Norm *pre, float *in);

#endif
