/* The key/value cache: the keys and values of every cached position of each sequence.
 *
 * A sequence is a table of pages; a page holds KV_PAGE positions of all layers. Pages are allocated
 * when they are first needed. They are reference-counted, so that sequences that begin with the
 * same tokens share pages; a shared page is copied before it is written.
 *
 * Within a page each layer and key/value head has its keys as [key_dim][KV_PAGE], because scores
 * are computed for 16 neighbouring positions at once, and then its values as [KV_PAGE][value_dim],
 * because outputs are computed for 16 neighbouring elements at once. kernels/attention_q8.h has
 * the layout of KV_Q8. Layers with values_in_keys have keys alone.
 *
 * Positions count from a sequence's `start`, which is 0 unless the caller says otherwise: a
 * sequence may begin at any position, with nothing cached before it. */
#ifndef KVCACHE_H
#define KVCACHE_H

#include <stdint.h>

#include "base/status.h"

enum { KV_PAGE = 64 };

typedef enum KvType { KV_F32, KV_F16, KV_Q8, KV_TYPES } KvType;
const char *kv_type_name(KvType type); /* as --kv-type has it */

/* What one layer stores of every position. n_kv_heads is 0 for a layer that stores nothing, because
 * it reads an earlier layer's keys and values or does not attend. */
typedef struct KvLayer {
    uint32_t n_kv_heads;
    uint32_t key_dim, value_dim; /* widths of one head's key and value */
    size_t state_floats; /* of the state that the layer keeps of a sequence beside pages; 0: none */
    bool values_in_keys; /* the value is the first value_dim elements of the key: latent
                          * attention. Nothing else is stored of it. */
} KvLayer;

enum { KV_MAX_LAYERS = 512 };

typedef struct KvShape {
    KvType type;
    uint32_t n_layers;
    KvLayer layers[KV_MAX_LAYERS];
} KvShape;

/* The shape of a model whose layers are all alike; n_layers <= KV_MAX_LAYERS. */
KvShape kvcache_uniform_shape(uint32_t n_layers, uint32_t n_kv_heads, uint32_t head_dim,
                              KvType type);

typedef struct KvCache KvCache;

/* Makes an empty cache for the sequences 0 <= id < max_sequences, whose pages take at most
 * max_bytes (0: no limit). The core build refuses KV_Q8. */
Status kvcache_new(KvCache **out, const KvShape *shape, size_t max_sequences, size_t max_bytes,
                   Error *error);
void kvcache_free(KvCache *cache);

const KvShape *kvcache_shape(const KvCache *cache);
size_t kvcache_page_bytes(const KvShape *shape);     /* one page */
size_t kvcache_position_bytes(const KvShape *shape); /* one position of one sequence */
size_t kvcache_pages_used(const KvCache *cache);
size_t kvcache_pages_free(const KvCache *cache); /* pages that max_bytes still allows */

/* Empties the sequence; its next position will be `start`. */
void kvcache_reset(KvCache *cache, int32_t sequence, int32_t start);
/* The position after the last cached one. */
int32_t kvcache_next(const KvCache *cache, int32_t sequence);
int32_t kvcache_start(const KvCache *cache, int32_t sequence);

/* Makes room for n more positions, in pages that no other sequence shares. Fails and changes
 * nothing when memory or max_bytes runs out. kvcache_commit then moves kvcache_next past n of
 * the reserved positions. */
Status kvcache_reserve(KvCache *cache, int32_t sequence, size_t n, Error *error);
void kvcache_commit(KvCache *cache, int32_t sequence, size_t n);

/* Drops all positions from `position` on and frees the pages that become empty. */
void kvcache_truncate(KvCache *cache, int32_t sequence, int32_t position);

/* Empties `to` and gives it the positions of `from` below `position`, in shared pages. */
Status kvcache_fork(KvCache *cache, int32_t from, int32_t position, int32_t to, Error *error);

/* One head's keys and values in page number `page` of the sequence, which is
 * (position - start) / KV_PAGE. */
void *kvcache_keys(const KvCache *cache, int32_t sequence, size_t page, size_t layer,
                   size_t kv_head);
void *kvcache_values(const KvCache *cache, int32_t sequence, size_t page, size_t layer,
                     size_t kv_head);

/* The layer's state of the sequence, 64-byte aligned: zeros at the sequence's start, then what the
 * forward pass last wrote. Valid once the sequence has reserved positions. A truncation that would
 * need an earlier state empties the sequence: kvcache_next says which positions are left. */
float *kvcache_state(KvCache *cache, int32_t sequence, size_t layer);

/* All layers of a page as kvcache_data_bytes bytes, for saving and loading. */
size_t kvcache_data_bytes(const KvShape *shape);
void *kvcache_page_data(const KvCache *cache, int32_t sequence, size_t page);

/* Stores the key and value of all heads at one reserved position: k[n_kv_heads][key_dim] and
 * v[n_kv_heads][value_dim], which is not read where values lie in keys. */
void kvcache_store(KvCache *cache, int32_t sequence, int32_t position, size_t layer, const float *k,
                   const float *v);

#endif
