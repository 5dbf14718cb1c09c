#include "kvcache/pool_keys.h"

#include <string.h>

#include "base/numbers.h"
#include "kvcache/kvpages.h"
#include "kernels/attention_q8.h"
#include "kernels/bfloat.h"

static size_t key_dim(const KvLayer *layer, PoolKeyKind kind) {
    return kind == POOL_KEY ? layer->pool_dim : layer->pool_index_dim;
}

static unsigned char *key_at(const KvCache *cache, int32_t sequence, size_t l, PoolKeyKind kind,
                             size_t pool) {
    const KvLayer *layer = &cache->shape.layers[l];
    size_t page = ((pool + 1) * layer->pool - 1) / KV_PAGE,
           slot = pool - page * KV_PAGE / layer->pool;
    size_t first = kv_key_bytes(cache->shape.type, layer->pool_dim);
    size_t bytes = first + kv_key_bytes(cache->shape.type, layer->pool_index_dim);
    Page *held = cache->sequences[sequence].pages[page * cache->n_groups];
    return held->data + cache->places[l].pools + slot * bytes + (kind == POOL_KEY ? 0 : first);
}

/* The 8-bit form of a key, group by group as a page has it, without the page's gaps. */
static void store_codes(unsigned char *to, const float *key, size_t dim) {
    _Alignas(float) unsigned char page[(Q8_GROUP + sizeof(float)) * Q8_PAGE];
    unsigned char *scales = to + round_up(dim, 4);
    for (size_t first = 0; first < dim; first += Q8_GROUP, scales += sizeof(float)) {
        size_t n = dim - first < Q8_GROUP ? dim - first : Q8_GROUP;
        attention_q8_reference.store_key(page, n, 0, key + first);
        for (size_t i = 0; i < n; i += 4) memcpy(to + first + i, page + i * Q8_PAGE, 4);
        memcpy(scales, page + round_up(n, 4) * Q8_PAGE, sizeof(float));
    }
}

void pool_keys_store(KvCache *cache, int32_t sequence, size_t layer, PoolKeyKind kind, size_t pool,
                     const float *key) {
    unsigned char *to = key_at(cache, sequence, layer, kind, pool);
    size_t dim = key_dim(&cache->shape.layers[layer], kind);
    if (cache->shape.type == KV_Q8) {
        store_codes(to, key, dim);
    } else if (cache->shape.type == KV_F32) {
        memcpy(to, key, dim * sizeof *key);
    } else if (cache->shape.type == KV_BF16) {
        uint16_t *pairs = (void *)to;
        for (size_t i = 0; i < dim; i++) pairs[i] = bfloat_round_floored(key[i]);
    } else {
        for (size_t i = 0; i < dim; i++)
            ((uint16_t *)(void *)to)[i] = numbers_float_to_half(key[i]);
    }
}

/* Copies a key's units to their places in a page. */
#define SPREAD_UNITS(unit)                                                                         \
    for (size_t i = 0; i < bytes / sizeof(unit); i++)                                              \
        ((unit *)page)[kv_unit_place(type, dim, i, slot)] = ((const unit *)(const void *)from)[i];

void pool_keys_copy(const KvCache *cache, int32_t sequence, size_t layer, PoolKeyKind kind,
                    const uint32_t *pools, size_t n, void *page, size_t slot) {
    const KvType type = cache->shape.type;
    size_t dim = key_dim(&cache->shape.layers[layer], kind), bytes = kv_key_bytes(type, dim);
    for (size_t k = 0; k < n; k++, slot++) {
        const unsigned char *from = key_at(cache, sequence, layer, kind, pools[k]);
        if (type == KV_F16) {
            SPREAD_UNITS(uint16_t)
        } else {
            SPREAD_UNITS(uint32_t)
        }
    }
}
