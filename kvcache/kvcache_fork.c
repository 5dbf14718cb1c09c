#include "kvcache/kvcache_fork.h"

#include <string.h>

#include "kvcache/kvcache_mirror.h"
#include "kvcache/kvcache_snapshots_internal.h"

static void empty(KvCache *cache, Sequence *sequence, int32_t start) {
    snapshots_forget(cache, sequence, start);
    kvpages_empty(cache, sequence, start);
}

static void truncate_to(KvCache *cache, int32_t id, int32_t position) {
    Sequence *sequence = &cache->sequences[id];
    int32_t start = sequence->start;
    if (position > sequence->next) return;
    bool lost = (cache->state_floats > 0 && position != sequence->next) ||
                (position > start && !snapshots_has_windows(cache, sequence, position));
    snapshots_drop_behind(cache, sequence, position);
    if (position <= start || (lost && !snapshots_restore(cache, sequence))) {
        empty(cache, sequence, start);
    } else if (!lost) {
        sequence->next = position;
        kvpages_release_from(cache, sequence, kvpages_for((size_t)(position - start)));
    }
}

void kvcache_truncate(KvCache *cache, int32_t id, int32_t position) {
    truncate_to(cache, id, position);
    kvcache_tell_mirror(cache, KV_TRUNCATED, id, position, 0);
}

/* Makes sequence to_id a copy of from_id up to `position`: shares its pages and snapshots, copies
 * its states, then truncates it. */
static Status fork_to(KvCache *cache, int32_t from_id, int32_t position, int32_t to_id,
                      Error *error) {
    const Sequence *from = &cache->sequences[from_id];
    Sequence *to = &cache->sequences[to_id];
    size_t n = kvpages_for((size_t)(from->next - from->start));
    if (!kvpages_grow(cache, to, n)) return error_set(error, "no memory for a cache's page table");
    empty(cache, to, from->start);
    if (position <= from->start) return STATUS_OK;
    if (from->states) {
        while (!(to->states = kvpages_new_states(cache, error)))
            if (!snapshots_shed(cache)) return STATUS_FAILED;
        memcpy(to->states, from->states, cache->state_floats * sizeof(float));
    }
    for (size_t i = 0; i < n * cache->n_groups; i++)
        if ((to->pages[i] = from->pages[i])) to->pages[i]->readers++;
    memcpy(to->given_back, from->given_back, sizeof to->given_back);
    to->n_pages = n;
    to->next = from->next;
    for (size_t i = 0; i < from->n_snapshots; i++) {
        to->snapshots[to->n_snapshots++] = from->snapshots[i];
        from->snapshots[i]->readers++;
    }
    truncate_to(cache, to_id, position);
    return STATUS_OK;
}

Status kvcache_fork(KvCache *cache, int32_t from, int32_t position, int32_t to, Error *error) {
    Status status = fork_to(cache, from, position, to, error);
    kvcache_tell_mirror(cache, KV_FORKED, from, position, to);
    return status;
}
