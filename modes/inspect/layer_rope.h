/* What RoPE does to one query and one key of a layer: the table that --layer prints below the
 * heads. */
#ifndef LAYER_ROPE_H
#define LAYER_ROPE_H

#include "modes/inspect/layer_trace.h"
#include "modes/inspect/render.h"

/* Whether the layer turns its queries and keys by their positions, and nothing after that changes
 * them but a factor: then the vectors before the turn follow from those after it. */
bool layer_rope_turns(const LayerTrace *trace);

/* Writes the pair of head 0's query, and of the earlier key that the head weighs most, whose
 * product the turn changes most: before the turn, as they meet, and as they would meet 100
 * positions later; beside them the pair's product, and q . k of all pairs. Writes nothing where the
 * layer does not turn or the branch has no keys of its own. */
void layer_rope_write(const LayerTrace *trace, const TracedBranch *branch, Sheet *out);

#endif
