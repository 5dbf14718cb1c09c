/* All that a sequence and its snapshots hold, for saving and loading. */
#ifndef KVCACHE_KVCACHE_SAVED_H
#define KVCACHE_KVCACHE_SAVED_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "kvcache/kv_shape.h"

typedef struct KvCache KvCache;

size_t kvcache_n_snapshots(const KvCache *cache, int32_t sequence);

/* What the sequence (snapshot -1) or its snapshot holds: its position; whether it was marked (the
 * sequence itself: always); its states, or NULL; the data of one page, or NULL. */
int32_t kvcache_saved_position(const KvCache *cache, int32_t sequence, int snapshot);
bool kvcache_saved_mark(const KvCache *cache, int32_t sequence, int snapshot);
float *kvcache_saved_states(const KvCache *cache, int32_t sequence, int snapshot);
void *kvcache_saved_page(const KvCache *cache, int32_t sequence, int snapshot, size_t group,
                         size_t page);

/* Lets an empty sequence, whose start is 0, end at `position`, with all pages and states that a
 * token there needs, to be filled through the functions above. After a failure, the caller resets
 * the sequence. */
Status kvcache_begin_at(KvCache *cache, int32_t sequence, int32_t position, Error *error);

#endif
