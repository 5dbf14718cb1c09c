/* Copies of a key/value cache in other processes (ports/cluster/): who is told what has been done
 * to it. */
#ifndef KVCACHE_KVCACHE_MIRROR_H
#define KVCACHE_KVCACHE_MIRROR_H

#include <stdint.h>

#include "kvcache/kv_shape.h"

typedef struct KvCache KvCache;

/* What has been done to a cache, other than by model_forward. A cache that gets the same calls in
 * the same order, with the same rows of model_forward between them, holds the same positions. A
 * call that consists of others is reported after them, so a mirror repeats their work. */
typedef enum KvChange {
    KV_ENDED, /* kvcache_free */
    KV_RESET, /* position: the start */
    KV_TRUNCATED,
    KV_FORKED, /* to `other` */
    KV_MARKED,
    KV_HELD,
    KV_LIMITED, /* position: the bytes for snapshots */
} KvChange;

/* Is told of the changes of the caches whose KvShape names it. */
typedef struct KvMirror {
    void (*changed)(struct KvMirror *mirror, const KvCache *cache, KvChange change,
                    int32_t sequence, int64_t position, int32_t other);
} KvMirror;

/* Tells the cache's mirror, if it has one, what has been done. */
void kvcache_tell_mirror(const KvCache *cache, KvChange change, int32_t sequence, int64_t position,
                         int32_t other);

#endif
