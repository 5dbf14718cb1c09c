/* What a layer makes of a position, for a terminal. */
#ifndef LAYER_TEXT_H
#define LAYER_TEXT_H

#include "modes/inspect/layer_trace.h"

/* Writes the layer's lines (--layers); for each branch the statistics of what it reads, holds and
 * gives, for each head the keys that weigh most, and the largest numbers inside the feed-forward
 * network; then how large and how alike the positions are at each depth. */
void layer_text_write(const LayerTrace *trace, Sheet *out);

#endif
