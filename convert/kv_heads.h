/* Grouped-query attention from a checkpoint with more key/value heads: `export --kv-heads`. */
#ifndef KV_HEADS_H
#define KV_HEADS_H

#include "formats/containers/source.h"

/* Gives every layer of the parsed source n key/value heads, each the mean of those that it
 * replaces, weights and biases (arXiv:2305.13245, which then trains for a while). The new matrices
 * are computed here, in float32, and take their memory until the source is closed. Fails where n
 * does not divide the heads of each layer, where a layer is other attention, and where heads have
 * norms of their own.
 */
Status kv_heads_merge(Source *source, uint32_t n, Error *error);

#endif
