/* Dividing the layers that have weights of their own (core/layer_kind.h). The others are computed
 * whole by every rank, with their states. */
#ifndef CLUSTER_DIVIDE_LAYERS_H
#define CLUSTER_DIVIDE_LAYERS_H

#include "ports/cluster/cut.h"

void divide_own_weights(Division *d, size_t layer);

#endif
