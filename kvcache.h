/* The key/value cache: the keys and values that attention can still see of each sequence, and the
 * states of layers that keep a state instead.
 *
 * A sequence has a table of pages for each group of layers: those that see everything, and those
 * that see the same window. A page holds KV_PAGE positions of the group's layers. Pages are
 * allocated when they are first needed and given back when they have left the window, KV_SLACK
 * positions later, so that drafts can be taken back. They are reference-counted, so that sequences
 * that begin with the same tokens share pages; a shared page is copied before it is written.
 *
 * A sequence is extended by reserving, writing and committing positions. It can go back to an
 * earlier position only if the windows before it, and the states there, still exist: in the
 * sequence itself or in a snapshot (kvcache/kvcache_snapshots.h). Otherwise it goes back further,
 * to kvcache_next, and its owner runs the tokens since then again, which gives the same bits.
 *
 * Within a page each layer and key/value head has its keys as [key_dim][KV_PAGE], because scores
 * are computed for 16 neighbouring positions at once, and then its values as [KV_PAGE][value_dim],
 * because outputs are computed for 16 neighbouring elements at once. kernels/attention_q8.h has
 * the layout of KV_Q8, kvcache/bf16_page.h that of KV_BF16. Layers with values_in_keys have keys
 * alone.
 *
 * Positions count from a sequence's `start`, which is 0 unless the caller says otherwise: a
 * sequence may begin at any position, with nothing cached before it. */
#ifndef KVCACHE_H
#define KVCACHE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "kvcache/kv_shape.h"

typedef struct KvCache KvCache;

/* Makes an empty cache for the sequences 0 <= id < max_sequences, whose pages, states and snapshots
 * take at most max_bytes (0: no limit). The core build refuses KV_Q8. */
Status kvcache_new(KvCache **out, const KvShape *shape, size_t max_sequences, size_t max_bytes,
                   Error *error);
void kvcache_free(KvCache *cache);

const KvShape *kvcache_shape(const KvCache *cache);
/* Bytes of pages and states; at most 2 MiB of released pages are held beside them. */
size_t kvcache_bytes_used(const KvCache *cache);

/* Empties the sequence; its next position will be `start`. */
void kvcache_reset(KvCache *cache, int32_t sequence, int32_t start);
/* The position after the last cached one. */
int32_t kvcache_next(const KvCache *cache, int32_t sequence);
int32_t kvcache_start(const KvCache *cache, int32_t sequence);

/* Makes room for n more positions, in pages that no other sequence shares. Fails and changes
 * nothing when memory or max_bytes runs out, also without snapshots. kvcache_commit then moves
 * kvcache_next past n of the reserved positions, whose keys, values and states are complete. */
Status kvcache_reserve(KvCache *cache, int32_t sequence, size_t n, Error *error);
void kvcache_commit(KvCache *cache, int32_t sequence, size_t n);

/* Gives back the positions that are reserved. `ran`: the states may have taken in some of them,
 * therefore a sequence with states goes back to a snapshot at or before kvcache_next. */
void kvcache_cancel(KvCache *cache, int32_t sequence, bool ran);

/* How many of `left` rows the next call should take, at most `most` > 0, so that it ends where a
 * snapshot is wanted. */
size_t kvcache_call_rows(const KvCache *cache, int32_t sequence, size_t left, size_t most);

/* One head's keys and values in page number `page` of the sequence, which is
 * (position - start) / KV_PAGE and still held. */
void *kvcache_keys(const KvCache *cache, int32_t sequence, size_t page, size_t layer,
                   size_t kv_head);
void *kvcache_values(const KvCache *cache, int32_t sequence, size_t page, size_t layer,
                     size_t kv_head);

/* The layer's state [state_floats] of the sequence, 64-byte aligned: zeros for an empty sequence.
 * The forward pass updates it in place, from positions that are reserved on. */
float *kvcache_state(KvCache *cache, int32_t sequence, size_t layer);

/* Stores the key and value of all heads at one reserved position: k[n_kv_heads][key_dim] and
 * v[n_kv_heads][value_dim], which is not read where values lie in keys. */
void kvcache_store(KvCache *cache, int32_t sequence, int32_t position, size_t layer, const float *k,
                   const float *v);

#endif
