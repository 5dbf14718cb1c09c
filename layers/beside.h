/* Layers with attention and Mamba 2 side by side: both read the layer's input, and the layer's
 * output is the sum of theirs (Falcon-H1). */
#ifndef LAYERS_BESIDE_H
#define LAYERS_BESIDE_H

#include "layer_kind.h"

extern const BranchKind beside_layer;

#endif
