/* Gates of feed-forward networks that are limited (LayerKinds.activate_limited). */
#ifndef LAYERS_LIMITS_H
#define LAYERS_LIMITS_H

#include "core/numeric.h"
#include "core/weights.h"

/* gate[width] = what down takes of it, in models of experts whose gates are limited. GPT-OSS:
 * activation(min(gate, limit)) * (up within +- limit, plus 1) with Config.experts.swiglu_limit.
 * Step 3.5: min(activation(gate), limit) * (up within +- limit) with FeedForward.limit. Gemma 3n:
 * activation(max(0, gate - edge)) * up with FeedForward.cutoff. Inkling 2: capped(gate) *
 * sigmoid(gate) * capped(up) with Config.experts.gate_softcap and up_softcap. Changes up[width]. */
void limits_activate(const Numeric *numeric, const Config *c, const FeedForward *f, float *gate,
                     float *up);

#endif
