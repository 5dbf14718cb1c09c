#include "kvcache/kvcache_mirror.h"

#include "kvcache/kvpages.h"

void kvcache_tell_mirror(const KvCache *cache, KvChange change, int32_t id, int64_t position,
                         int32_t other) {
    KvMirror *mirror = cache->shape.mirror;
    if (mirror) mirror->changed(mirror, cache, change, id, position, other);
}
