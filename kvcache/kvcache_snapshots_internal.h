/* What kvcache.c and the rest of kvcache/ call in kvcache_snapshots.c. The core build has none of
 * these (core/core_absent.c): a cache there keeps no snapshots and shares no pages. */
#ifndef KVCACHE_KVCACHE_SNAPSHOTS_INTERNAL_H
#define KVCACHE_KVCACHE_SNAPSHOTS_INTERNAL_H

#include "kvcache/kvpages.h"

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

/* Whether the sequence still has the windows that `position` sees. */
bool snapshots_has_windows(const KvCache *cache, const Sequence *sequence, int32_t position);

/* Drops the snapshots after `position`. */
void snapshots_drop_behind(KvCache *cache, Sequence *sequence, int32_t position);

/* Goes back to the newest snapshot: its windows, states and position; false: there is none. */
bool snapshots_restore(KvCache *cache, Sequence *sequence);

/* Drops all snapshots of the sequence, which is about to be emptied and will begin at `start`. */
void snapshots_forget(KvCache *cache, Sequence *sequence, int32_t start);

/* Drops the snapshot that is missed least, so that its memory can be used; false: there was none.
 */
bool snapshots_shed(KvCache *cache);

/* The cache is about to be freed. */
void snapshots_end(KvCache *cache);

/* The page of position start + index is about to be written: replaces it by a copy if others read
 * it. */
Status snapshots_own_page(KvCache *cache, Sequence *sequence, size_t index, Error *error);

/* The sequence has taken in n more positions; its pages are not given back yet. Takes snapshots
 * where they are due (a page after the newest one) and drops held states that are too old. */
void snapshots_commit(KvCache *cache, Sequence *sequence, size_t n);

/* kvcache_call_rows */
size_t snapshots_call_rows(const KvCache *cache, const Sequence *sequence, size_t left,
                           size_t most);

#endif
