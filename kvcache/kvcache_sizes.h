/* How much memory the key/value cache of a shape takes. */
#ifndef KVCACHE_KVCACHE_SIZES_H
#define KVCACHE_KVCACHE_SIZES_H

#include <stdbool.h>
#include <stdint.h>

#include "kvcache/kv_shape.h"

typedef struct KvCache KvCache;

/* Whether sequences of this shape lose windows or states, so that marks make a difference. */
bool kvcache_forgets(const KvShape *shape);
bool kvcache_has_states(const KvShape *shape);

/* The shape of a model whose layers are all alike; n_layers <= KV_MAX_LAYERS. */
KvShape kvcache_uniform_shape(uint32_t n_layers, uint32_t n_kv_heads, uint32_t head_dim,
                              KvType type);

size_t kvcache_position_bytes(const KvShape *shape); /* one position of one sequence, all layers */

/* The part of n positions that the token after them sees, and the states. */
size_t kvcache_seen_bytes(const KvShape *shape, size_t n);

/* What a sequence of n positions takes, in whole pages: everything of layers without a window, and
 * of the others what can still be seen. A call of many rows takes more while it runs. */
size_t kvcache_sequence_bytes(const KvShape *shape, size_t n);
/* The longest sequence, of at most `most` positions, whose pages and states take no more than
 * `bytes`. */
size_t kvcache_longest(const KvShape *shape, size_t most, double bytes);

size_t kvcache_bytes_free(const KvCache *cache); /* bytes that max_bytes still allows */

enum { KV_MAX_GROUPS = 4 };

/* The groups of layers that have page tables of their own. */
typedef struct KvLayout {
    size_t n_groups;
    size_t data_bytes[KV_MAX_GROUPS]; /* of one page; 0: the group stores nothing */
    uint32_t window[KV_MAX_GROUPS];
    size_t state_bytes; /* of all states */
} KvLayout;

KvLayout kvcache_layout(const KvShape *shape);

/* The first page of a group with this window that position start + index needs. */
size_t kvcache_first_page(uint32_t window, size_t index);

#endif
