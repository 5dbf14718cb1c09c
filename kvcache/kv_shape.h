/* What the key/value cache stores for each layer of a model. */
#ifndef KVCACHE_KV_SHAPE_H
#define KVCACHE_KV_SHAPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/numbers.h"
#include "kernels/attention_q8.h"
#include "kvcache/bf16_page.h"

/* Positions of a page, and how many positions a sequence can always go back. */
enum { KV_PAGE = 64, KV_SLACK = 64 };

typedef enum KvType { KV_F32, KV_F16, KV_Q8, KV_BF16, KV_TYPES } KvType;

/* The name of the type as --kv-type has it. */
static inline const char *kv_type_name(KvType type) {
    static const char *const names[KV_TYPES] = {
        [KV_F32] = "f32", [KV_F16] = "f16", [KV_Q8] = "q8", [KV_BF16] = "bf16"};
    return names[type];
}

/* What one layer stores of every position. n_kv_heads is 0 for a layer that stores nothing, because
 * it reads an earlier layer's keys and values or does not attend. */
typedef struct KvLayer {
    uint32_t n_kv_heads;
    /* Widths of one head's key, value and indexer's key; of one more key, and one of an indexer,
     * that each `pool` positions have (kvcache/pool_keys.h); 0: none. */
    uint32_t key_dim, value_dim, index_dim, pool, pool_dim, pool_index_dim;
    uint32_t window;     /* positions that its queries see, their own included; 0: all */
    size_t state_floats; /* of the state that the layer keeps of a sequence beside pages; 0: none */
    bool values_in_keys; /* the value is the first value_dim elements of the key: latent attention.
                          * Nothing else is stored of it; in its place lies the key of an indexer
                          * (layers/attention/indexer.h), stored as keys are. */
} KvLayer;

/* Bytes of a key at one position. */
static inline size_t kv_key_bytes(KvType type, size_t key_dim) {
    if (type == KV_BF16) return bf16_key_bytes(key_dim);
    return type == KV_Q8 ? q8_key_bytes(key_dim) : key_dim * (type == KV_F32 ? 4 : 2);
}

/* A head's keys in a page are units, so many of each position: elements of floats, pairs of
 * bfloat16, four codes or a scale of 8-bit keys. kv_unit_place: where unit `unit` of the position
 * in slot `slot` lies. */
static inline size_t kv_units(KvType type, size_t key_dim) {
    if (type == KV_BF16) return (key_dim + 1) / 2;
    return type == KV_Q8 ? round_up(key_dim, 4) / 4 + q8_groups(key_dim) : key_dim;
}
static inline size_t kv_unit_place(KvType type, size_t key_dim, size_t unit, size_t slot) {
    return type == KV_BF16 ? bf16_key_pair(key_dim, unit, slot) : unit * KV_PAGE + slot;
}

/* Bytes of the keys of the pools that end in one page (kvcache/pool_keys.h). */
static inline size_t kv_pool_bytes(KvType type, const KvLayer *layer) {
    size_t most = layer->pool > 0 ? (KV_PAGE - 1) / layer->pool + 1 : 0;
    size_t bytes = kv_key_bytes(type, layer->pool_dim) + kv_key_bytes(type, layer->pool_index_dim);
    return round_up(most * bytes, 64);
}

enum { KV_MAX_LAYERS = 512 };

typedef struct KvShape {
    KvType type;
    uint32_t n_layers;
    KvLayer layers[KV_MAX_LAYERS];
    struct KvMirror *mirror; /* is told of changes (kvcache/kvcache_mirror.h); NULL: nobody is */
} KvShape;

#endif
