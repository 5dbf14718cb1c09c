/* Keys of pools: a layer may keep one more key of each `pool` neighbouring positions (KvLayer). The
 * key of a pool lies in the page of its last position, in pages that stay when the positions' own
 * keys have left their window. A pool may have a second key, that of an indexer.
 *
 * A key is stored as others are (KvType), but in units without gaps: elements, or 8-bit codes by
 * fours and then scales. */
#ifndef KVCACHE_POOL_KEYS_H
#define KVCACHE_POOL_KEYS_H

#include "kvcache/kv_shape.h"

typedef struct KvCache KvCache;

typedef enum PoolKeyKind { POOL_KEY, POOL_INDEX_KEY } PoolKeyKind;

/* Stores the key of pool number `pool` of the sequence, whose last position is reserved. */
void pool_keys_store(KvCache *cache, int32_t sequence, size_t layer, PoolKeyKind kind, size_t pool,
                     const float *key);

/* Copies the keys of pools[n] to a page of keys, from position `slot` on. */
void pool_keys_copy(const KvCache *cache, int32_t sequence, size_t layer, PoolKeyKind kind,
                    const uint32_t *pools, size_t n, void *page, size_t slot);

#endif
