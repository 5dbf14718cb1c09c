/* Sequences of the key/value cache that go back, or begin as copies of others. */
#ifndef KVCACHE_KVCACHE_FORK_H
#define KVCACHE_KVCACHE_FORK_H

#include <stdint.h>

#include "base/status.h"
#include "kvcache/kv_shape.h"

typedef struct KvCache KvCache;

/* Drops all positions from `position` on and frees the pages that become empty. When what a token
 * at `position` sees is gone, goes back to the newest snapshot before it, or to the start:
 * kvcache_next tells. Its owner runs the tokens since then again, which gives the same bits. */
void kvcache_truncate(KvCache *cache, int32_t sequence, int32_t position);

/* Empties `to` and gives it the positions of `from` below `position`, in shared pages; fewer, as
 * kvcache_truncate has it, when what `position` sees is gone. */
Status kvcache_fork(KvCache *cache, int32_t from, int32_t position, int32_t to, Error *error);

#endif
