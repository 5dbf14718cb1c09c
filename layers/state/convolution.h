/* Short convolutions, as LFM2 has them in place of attention: of three projections b, c and x of
 * the input, c times the causal convolution of b * x. */
#ifndef LAYERS_STATE_CONVOLUTION_H
#define LAYERS_STATE_CONVOLUTION_H

#include "core/layer_kind.h"

extern const BranchKind convolution_kind;

#endif
