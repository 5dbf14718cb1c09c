/* Layers that are a mixture of experts and nothing else, whose experts read and write a vector
 * narrower than the residual stream: Nemotron 3. One matrix makes that vector of the layer's input,
 * another one widens the experts' sum; the router and the shared expert read the input itself. */
#ifndef LAYERS_NARROW_H
#define LAYERS_NARROW_H

#include "layer_kind.h"

extern const LayerKind narrow_layer;

#endif
