/* What a layer makes of a position, as a picture. */
#ifndef LAYER_PICTURE_H
#define LAYER_PICTURE_H

#include "modes/inspect/layer_trace.h"

/* Draws, from top to bottom in the order of the data, each vector as cells: x, what a branch reads,
 * queries, weights, sums of values, what the feed-forward network activates, outputs; each with its
 * own scale of colours, whose ends its caption says. */
void layer_picture_write(const LayerTrace *trace, Sheet *svg);

#endif
