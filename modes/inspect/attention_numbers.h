/* The maps of attention as JSON, and as a page with a choice of layer and head. */
#ifndef ATTENTION_NUMBERS_H
#define ATTENTION_NUMBERS_H

#include "modes/inspect/attention_maps.h"

/* Writes {"model", ..., "tokens": [{"id", "text"}], "layers": [{"scale", "window", "chunk",
 * "heads": [{"kv_head", "product_variance", "score_variance", "entropy", "weights", "scores"}]}]},
 * and "attends": false in layers that do not attend. n_heads is that of the layer with the most. A
 * row's sum is below 1 where an attention sink took weight. A score is null where a key is masked.
 * Weights and scores have `digits` significant digits; 9 keep every bit. */
Status attention_numbers_json(const AttentionMaps *maps, int digits, Sheet *out, Error *error);

/* Writes an HTML page that needs no network. */
Status attention_numbers_page(const AttentionMaps *maps, Sheet *out, Error *error);

#endif
