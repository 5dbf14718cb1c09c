/* What the keys of pools take in a page. It stands apart from pool_keys.c, which needs the cache.
 */
#include "kv_shape.h"

size_t kv_pool_bytes(KvType type, const KvLayer *layer) {
    size_t most = layer->pool > 0 ? (KV_PAGE - 1) / layer->pool + 1 : 0;
    size_t bytes = kv_key_bytes(type, layer->pool_dim) + kv_key_bytes(type, layer->pool_index_dim);
    return round_up(most * bytes, 64);
}
