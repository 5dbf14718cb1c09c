/* Memory for the weights that a kind of layers or an arrangement has found. */
#ifndef LAYERS_LAYER_ALLOCATE_H
#define LAYERS_LAYER_ALLOCATE_H

#include "core/weights.h"

/* Zeroed bytes that weights_free gives to free(). NULL after a failure, which the finder holds
 * then. */
void *layer_allocate(Finder *finder, size_t bytes);

#endif
