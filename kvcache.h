/* The key/value cache: what attention remembers of each sequence.
 *
 * A sequence is a table of pages; a page holds KV_PAGE positions of all layers. Pages are
 * allocated as they are used and counted, so that sequences that begin with the same tokens
 * share them; a shared page is copied before it is written. Within a page, for each layer and
 * key/value head, keys lie [head_dim][KV_PAGE] (scores run over positions, one register 16 of
 * them wide) and values [KV_PAGE][head_dim] (outputs run over the head).
 *
 * In 8 bits (KV_Q8) four neighbours of what a product sums over lie together:
 *
 *     keys     int8 codes[head_dim / 4, rounded up][KV_PAGE][4]
 *              float scales[head_dim / KV_Q8_GROUP, rounded up][KV_PAGE]
 *     values   int8 codes[KV_PAGE / 4][head_dim, rounded up to 16][4]
 *              float scales[KV_PAGE]
 *
 * a key has a scale for each KV_Q8_GROUP elements, a value one. An element is scale * code, both
 * found as for activations (docs/numerics.md).
 *
 * Positions count from a sequence's `start`, which is 0 unless the caller says otherwise: a
 * sequence may begin anywhere with nothing cached before it. */
#ifndef KVCACHE_H
#define KVCACHE_H

#include <stdint.h>

#include "base/status.h"

enum { KV_PAGE = 64, KV_Q8_GROUP = 32 };

typedef enum KvType { KV_F32, KV_F16, KV_Q8, KV_TYPES } KvType;
const char *kv_type_name(KvType type); /* as --kv-type has it */

typedef struct KvShape {
    uint32_t n_layers, n_kv_heads, head_dim;
    KvType type;
} KvShape;

typedef struct KvCache KvCache;

/* At most max_bytes of pages (0: no limit) for sequences 0 <= id < max_sequences. */
Status kvcache_new(KvCache **out, const KvShape *shape, size_t max_sequences, size_t max_bytes,
                   Error *error);
void kvcache_free(KvCache *cache);

const KvShape *kvcache_shape(const KvCache *cache);
size_t kvcache_page_bytes(const KvShape *shape);     /* one page */
size_t kvcache_position_bytes(const KvShape *shape); /* one position of one sequence */
size_t kvcache_pages_used(const KvCache *cache);
size_t kvcache_pages_free(const KvCache *cache); /* that max_bytes still allows */

/* Empties the sequence and lets its next position be `start`. */
void kvcache_reset(KvCache *cache, int32_t sequence, int32_t start);
/* The position that comes next. */
int32_t kvcache_next(const KvCache *cache, int32_t sequence);
int32_t kvcache_start(const KvCache *cache, int32_t sequence);

/* Makes room for n more positions, in pages that nobody else reads. Fails, leaving everything
 * as it was, when memory or max_bytes runs out. kvcache_commit makes them count. */
Status kvcache_reserve(KvCache *cache, int32_t sequence, size_t n, Error *error);
void kvcache_commit(KvCache *cache, int32_t sequence, size_t n);

/* Forgets all positions from `position` on; pages that hold nothing else are given back. */
void kvcache_truncate(KvCache *cache, int32_t sequence, int32_t position);

/* Makes `to` (emptied first) begin with `from`'s positions below `position`, sharing pages. */
Status kvcache_fork(KvCache *cache, int32_t from, int32_t position, int32_t to, Error *error);

/* The stored keys and values of page number `page`, (position - start) / KV_PAGE, in the layout
 * and type that the shape says. */
void *kvcache_keys(const KvCache *cache, int32_t sequence, size_t page, size_t layer,
                   size_t kv_head);
void *kvcache_values(const KvCache *cache, int32_t sequence, size_t page, size_t layer,
                     size_t kv_head);

/* All layers of a page as one run of bytes, kvcache_data_bytes of them: for saving and loading. */
size_t kvcache_data_bytes(const KvShape *shape);
void *kvcache_page_data(const KvCache *cache, int32_t sequence, size_t page);

/* Stores one reserved position's key and value of all heads, k and v[n_kv_heads][head_dim]. */
void kvcache_store(KvCache *cache, int32_t sequence, int32_t position, size_t layer, const float *k,
                   const float *v);

#endif
