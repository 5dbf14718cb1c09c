/* Layers with attention and Mamba 2 side by side: both read the layer's input, and the layer's
 * output is the sum of theirs (Falcon-H1). */
#ifndef LAYERS_STATE_PARALLEL_MAMBA_H
#define LAYERS_STATE_PARALLEL_MAMBA_H

#include "core/layer_kind.h"

extern const BranchKind parallel_mamba_kind;

#endif
