#include "kvcache/kvcache_saved.h"

#include <string.h>

#include "kvcache/kvcache_snapshots_internal.h"

size_t kvcache_n_snapshots(const KvCache *cache, int32_t id) {
    return cache->sequences[id].n_snapshots;
}

int32_t kvcache_saved_position(const KvCache *cache, int32_t id, int snapshot) {
    const Sequence *sequence = &cache->sequences[id];
    return snapshot < 0 ? sequence->next : sequence->snapshots[snapshot]->position;
}

bool kvcache_saved_mark(const KvCache *cache, int32_t id, int snapshot) {
    return snapshot < 0 || cache->sequences[id].snapshots[snapshot]->is_mark;
}

float *kvcache_saved_states(const KvCache *cache, int32_t id, int snapshot) {
    const Sequence *sequence = &cache->sequences[id];
    return snapshot < 0 ? sequence->states : sequence->snapshots[snapshot]->states;
}

void *kvcache_saved_page(const KvCache *cache, int32_t id, int snapshot, size_t group,
                         size_t page) {
    const Sequence *sequence = &cache->sequences[id];
    Page *found = NULL;
    if (snapshot < 0 || cache->groups[group].window == 0) {
        found = sequence->pages[page * cache->n_groups + group];
    } else {
        const Pages *pages = &sequence->snapshots[snapshot]->groups[group];
        if (page >= pages->first && page < pages->first + pages->n)
            found = pages->pages[page - pages->first];
    }
    return found ? found->data : NULL;
}

Status kvcache_begin_at(KvCache *cache, int32_t id, int32_t position, Error *error) {
    Sequence *sequence = &cache->sequences[id];
    size_t end = kvpages_for((size_t)position);
    if (end == 0) return STATUS_OK;
    if (!kvpages_grow(cache, sequence, end))
        return error_set(error, "no memory for a cache's page table");
    memset(sequence->pages, 0, end * cache->n_groups * sizeof *sequence->pages);
    sequence->n_pages = end;
    Status status = STATUS_OK;
    for (size_t g = 0; g < cache->n_groups; g++) {
        size_t first = kvpages_first_seen(&cache->groups[g], (size_t)position);
        sequence->given_back[g] = first;
        for (size_t i = first; i < end && cache->groups[g].data_bytes && status == STATUS_OK; i++)
            if (!(sequence->pages[i * cache->n_groups + g] = kvpages_new(cache, g, error)))
                status = STATUS_FAILED;
    }
    if (status == STATUS_OK && cache->state_floats > 0 &&
        !(sequence->states = kvpages_new_states(cache, error)))
        status = STATUS_FAILED;
    sequence->next = position;
    return status;
}
