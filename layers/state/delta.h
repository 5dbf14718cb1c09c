/* Gated DeltaNet (https://arxiv.org/abs/2412.06464), as Qwen3-Next and Qwen 3.5 have it, and Kimi's
 * delta attention (https://arxiv.org/abs/2510.26692), whose states decay by the elements of keys: a
 * causal convolution of q, k and v, a state for each head that learns what k does not yet recall,
 * and a gated norm of what q recalls. */
#ifndef LAYERS_STATE_DELTA_H
#define LAYERS_STATE_DELTA_H

#include "core/layer_kind.h"

extern const BranchKind delta_kind;

/* Floats of the state of a layer, without n-grams (layers/arrangements/ngram.h). */
size_t delta_state_floats(const Config *config);

#endif
