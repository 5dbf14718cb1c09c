/* Snapshots of the key/value cache's sequences (kvcache_sharing.h), for what goes back to them.
 */
#ifndef SNAPSHOTS_H
#define SNAPSHOTS_H

#include "kvcache_pages.h"
#include "kvcache_sharing.h"

/* Pages of a group with a window. */
typedef struct Pages {
    size_t first, n;
    Page **pages; /* [n] */
} Pages;

/* What a token at `position` needs besides the sequence's pages of layers that see everything. */
typedef struct KvSnapshot KvSnapshot;
struct KvSnapshot {
    KvSnapshot *earlier, *later; /* in KvCache.snapshots, which has them in no order */
    size_t readers;              /* sequences that have it */
    int32_t position;
    bool is_mark;
    bool is_spare; /* of Sequence.held: only memory for the next one */
    float *states; /* or NULL */
    Pages groups[KV_GROUPS];
};

/* Tells the cache's mirror, if it has one, what has been done. */
void snapshots_tell(const KvCache *cache, KvChange change, int32_t sequence, int64_t position,
                    int32_t other);

/* Whether the sequence still has the windows that `position` sees. */
bool snapshots_has_windows(const KvCache *cache, const Sequence *sequence, int32_t position);

/* Drops the snapshots behind `position`. */
void snapshots_drop_behind(KvCache *cache, Sequence *sequence, int32_t position);

/* Goes back to the newest snapshot: its windows, states and position; false: there is none. */
bool snapshots_restore(KvCache *cache, Sequence *sequence);

#endif
