/* What a layer makes of a position, as JSON. */
#ifndef LAYER_NUMBERS_H
#define LAYER_NUMBERS_H

#include "modes/inspect/layer_trace.h"

/* Writes all vectors to the last bit. Of keys and values: [n_kv_heads][position + 1][width]. */
void layer_numbers_write(const LayerTrace *trace, Sheet *out);

#endif
