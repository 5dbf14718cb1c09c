#include "kvcache/kvcache_snapshots.h"

#include <stdlib.h>
#include <string.h>

#include "kvcache/kvcache_mirror.h"
#include "kvcache/kvcache_sizes.h"
#include "kvcache/kvcache_snapshots_internal.h"

enum {
    MARKS = 4,     /* marks that stay, the newest ones */
    HOLD_GAP = 32, /* positions between snapshots that are made while drafts are tried */
};

/* ---- One snapshot ---- */

/* Takes a reader from a snapshot, and frees it after the last one. */
static void discard(KvCache *cache, KvSnapshot *snapshot) {
    if (--snapshot->readers > 0) return;
    for (size_t g = 0; g < cache->n_groups; g++) {
        Pages *group = &snapshot->groups[g];
        for (size_t i = 0; i < group->n; i++) {
            group->pages[i]->keepers--;
            kvpages_release(cache, group->pages[i]);
        }
        free(group->pages);
    }
    kvpages_free_states(cache, snapshot->states);
    if (snapshot->later) snapshot->later->earlier = snapshot->earlier;
    if (snapshot->earlier) snapshot->earlier->later = snapshot->later;
    if (cache->snapshots == snapshot) cache->snapshots = snapshot->earlier;
    free(snapshot);
}

/* Retains the pages of a group with a window that a query at `position` sees, for a snapshot; other
 * groups release no pages. False: no memory. */
static bool retain_window_pages(const KvCache *cache, const Sequence *sequence, size_t g,
                                int32_t position, Pages *out) {
    size_t index = (size_t)(position - sequence->start), end = kvpages_for(index);
    if (cache->groups[g].window == 0) return true; /* the sequence has all of them */
    out->first = kvpages_first_seen(&cache->groups[g], index);
    if (out->first >= end) return true;
    if (!(out->pages = calloc(end - out->first, sizeof *out->pages))) return false;
    for (; out->first + out->n < end; out->n++) {
        Page *page = sequence->pages[(out->first + out->n) * cache->n_groups + g];
        page->readers++;
        page->keepers++;
        out->pages[out->n] = page;
    }
    return true;
}

/* A snapshot of the sequence at `position`, whose windows it has; NULL: no memory. */
static KvSnapshot *new_snapshot(KvCache *cache, const Sequence *sequence, int32_t position) {
    KvSnapshot *snapshot = calloc(1, sizeof *snapshot);
    Error ignored;
    if (!snapshot) return NULL;
    snapshot->readers = 1;
    snapshot->position = position;
    snapshot->earlier = cache->snapshots;
    if (cache->snapshots) cache->snapshots->later = snapshot;
    cache->snapshots = snapshot;
    bool done = true;
    for (size_t g = 0; g < cache->n_groups && done; g++)
        done = retain_window_pages(cache, sequence, g, position, &snapshot->groups[g]);
    if (done && cache->state_floats > 0) {
        snapshot->states = kvpages_new_states(cache, &ignored);
        done = snapshot->states != NULL;
    }
    if (!done) {
        discard(cache, snapshot);
        return NULL;
    }
    if (snapshot->states)
        memcpy(snapshot->states, sequence->states, cache->state_floats * sizeof(float));
    return snapshot;
}

/* ---- Which snapshots a sequence keeps ---- */

static void remove_at(KvCache *cache, Sequence *sequence, size_t i) {
    discard(cache, sequence->snapshots[i]);
    sequence->n_snapshots--;
    memmove(sequence->snapshots + i, sequence->snapshots + i + 1,
            (sequence->n_snapshots - i) * sizeof *sequence->snapshots);
}

static bool stays(const Sequence *sequence, size_t i) {
    size_t later = 0;
    for (size_t j = i + 1; j < sequence->n_snapshots; j++) later += sequence->snapshots[j]->is_mark;
    return sequence->snapshots[i]->is_mark && later < MARKS;
}

/* How badly snapshot i is missed: the distance of the snapshot before it (or the start), in units
 * of what the rule "at most 64 + d / 2 again" allows before the snapshot after it. At most 1: the
 * rule holds without it, and will when the text is longer. */
static double loss(const Sequence *sequence, size_t i) {
    int32_t older = i > 0 ? sequence->snapshots[i - 1]->position : sequence->start;
    int32_t newer = sequence->snapshots[i + 1]->position;
    return (double)(sequence->next - older) / (64.0 + 1.5 * (double)(sequence->next - newer));
}

/* Drops the snapshot that is missed least, the newest one and the marks that stay last of all. */
static void drop_least(KvCache *cache, Sequence *sequence) {
    size_t best = sequence->n_snapshots - 1;
    double least = 0.0;
    bool found = false;
    for (size_t i = 0; i + 1 < sequence->n_snapshots; i++) {
        if (stays(sequence, i)) continue;
        double missed = loss(sequence, i);
        if (!found || missed < least) best = i, least = missed;
        found = true;
    }
    if (!found && stays(sequence, best)) best = 0;
    remove_at(cache, sequence, best);
}

static void prune(KvCache *cache, Sequence *sequence) {
    for (size_t i = sequence->n_snapshots; i-- > 0;)
        if (i + 1 < sequence->n_snapshots && !stays(sequence, i) && loss(sequence, i) <= 1.0)
            remove_at(cache, sequence, i);
    while (sequence->n_snapshots > KV_SNAPSHOTS) drop_least(cache, sequence);
}

bool snapshots_shed(KvCache *cache) {
    Sequence *most = &cache->sequences[0];
    for (size_t i = 1; i < cache->n_sequences; i++)
        if (cache->sequences[i].n_snapshots > most->n_snapshots) most = &cache->sequences[i];
    if (most->n_snapshots == 0) return false;
    drop_least(cache, most);
    return true;
}

size_t kvcache_snapshot_bytes(const KvCache *cache) {
    size_t bytes = 0;
    for (const KvSnapshot *s = cache->snapshots; s; s = s->earlier) {
        if (s->states) bytes += cache->state_floats * sizeof(float);
        for (size_t g = 0; g < cache->n_groups; g++)
            for (size_t i = 0; i < s->groups[g].n; i++) {
                const Page *page = s->groups[g].pages[i];
                if (page->readers == page->keepers)
                    bytes += kvpages_bytes(&cache->groups[g]) / page->keepers;
            }
    }
    return bytes;
}

static void obey_limit(KvCache *cache) {
    while (kvcache_snapshot_bytes(cache) > cache->snapshot_bytes && snapshots_shed(cache)) continue;
}

/* Adds a snapshot at `position`, unless there is one; only the caller prunes. */
static void snapshots_add(KvCache *cache, Sequence *sequence, int32_t position, bool is_mark) {
    size_t i = sequence->n_snapshots;
    while (i > 0 && sequence->snapshots[i - 1]->position > position) i--;
    if (position <= sequence->start) return;
    if (i > 0 && sequence->snapshots[i - 1]->position == position) {
        if (is_mark) sequence->snapshots[i - 1]->is_mark = true;
        return;
    }
    KvSnapshot *snapshot = new_snapshot(cache, sequence, position);
    if (!snapshot) return;
    snapshot->is_mark = is_mark;
    memmove(sequence->snapshots + i + 1, sequence->snapshots + i,
            (sequence->n_snapshots - i) * sizeof *sequence->snapshots);
    sequence->snapshots[i] = snapshot;
    sequence->n_snapshots++;
    prune(cache, sequence);
}

static int32_t newest_position(const Sequence *sequence) {
    size_t n = sequence->n_snapshots;
    return n > 0 ? sequence->snapshots[n - 1]->position : sequence->start;
}

/* ---- Held states ---- */

static void drop_held(KvCache *cache, Sequence *sequence) {
    if (!sequence->held) return;
    kvpages_free_states(cache, sequence->held->states);
    free(sequence->held);
    sequence->held = NULL;
}

/* States that are not initialized, in place of snapshots if need be; NULL: no memory. */
static KvSnapshot *new_held(KvCache *cache) {
    Error ignored;
    KvSnapshot *held = calloc(1, sizeof *held);
    while (held && !(held->states = kvpages_new_states(cache, &ignored)))
        if (!snapshots_shed(cache)) {
            free(held);
            return NULL;
        }
    return held;
}

static bool hold(KvCache *cache, Sequence *sequence, size_t n) {
    if (!sequence->states) return true;
    if (cache->snapshot_bytes > 0 && sequence->next - newest_position(sequence) > HOLD_GAP) {
        snapshots_add(cache, sequence, sequence->next, false);
        obey_limit(cache);
    }
    bool is_new = !sequence->held;
    if (is_new && !(sequence->held = new_held(cache))) return false;
    if (n == 0 || is_new) /* fresh memory is touched here, not in a pass whose time is measured */
        memcpy(sequence->held->states, sequence->states, cache->state_floats * sizeof(float));
    sequence->held->position = sequence->next + (int32_t)n;
    sequence->held->is_spare = false;
    return true;
}

bool kvcache_hold(KvCache *cache, int32_t id, size_t n) {
    bool held = hold(cache, &cache->sequences[id], n);
    kvcache_tell_mirror(cache, KV_HELD, id, (int64_t)n, 0);
    return held;
}

float *kvcache_held_state(const KvCache *cache, int32_t id, size_t layer, int32_t first,
                          int32_t *position) {
    const KvSnapshot *held = cache->sequences[id].held;
    if (!held || held->is_spare || held->position <= first) return NULL;
    *position = held->position;
    return held->states + cache->places[layer].state;
}

bool snapshots_has_windows(const KvCache *cache, const Sequence *sequence, int32_t position) {
    for (size_t g = 0; g < cache->n_groups; g++)
        if (kvpages_first_seen(&cache->groups[g], (size_t)(position - sequence->start)) <
            sequence->given_back[g])
            return false;
    return true;
}

/* ---- What kvcache.c calls (kvcache_snapshots_internal.h) ---- */

/* Drops a held snapshot that is too far behind the n new positions, and takes new ones where they
 * are due. */
void snapshots_commit(KvCache *cache, Sequence *sequence, size_t n) {
    int32_t before = sequence->next - (int32_t)n, start = sequence->start;
    const KvSnapshot *held = sequence->held;
    bool drafts = held && !held->is_spare && held->position >= before; /* n are drafts */
    if (sequence->held && sequence->next - sequence->held->position > KV_SLACK)
        drop_held(cache, sequence);
    if (cache->snapshot_bytes == 0 || !kvcache_forgets(&cache->shape)) return;
    if ((before - start) / KV_PAGE == (sequence->next - start) / KV_PAGE &&
        cache->state_floats == 0)
        return;
    if (cache->state_floats == 0) { /* windows alone: one at the end of each page */
        int32_t first = (before - start) / KV_PAGE + 1, last = (sequence->next - start) / KV_PAGE;
        for (int32_t page = first; page <= last; page++)
            snapshots_add(cache, sequence, start + page * KV_PAGE, false);
    } else if (!drafts && sequence->next - newest_position(sequence) >= KV_PAGE) {
        snapshots_add(cache, sequence, sequence->next, false);
    } else {
        return;
    }
    obey_limit(cache);
}

size_t snapshots_call_rows(const KvCache *cache, const Sequence *sequence, size_t left,
                           size_t most) {
    size_t n = left < most ? left : most;
    if (cache->state_floats == 0 || cache->snapshot_bytes == 0) return n;
    /* The newest snapshot will be `older` behind the end of the text; the rule holds if the next
     * one is at least `wanted` behind it. */
    size_t older = (size_t)(sequence->next - newest_position(sequence)) + left;
    size_t wanted = older > 64 ? ((older - 64) * 2 + 2) / 3 : 0;
    if (wanted > 0 && wanted < left && left - wanted < n) n = left - wanted;
    return n;
}

void snapshots_drop_behind(KvCache *cache, Sequence *sequence, int32_t position) {
    while (sequence->n_snapshots > 0 && newest_position(sequence) > position)
        remove_at(cache, sequence, sequence->n_snapshots - 1);
    if (sequence->held && sequence->held->position > position) drop_held(cache, sequence);
}

/* Puts the snapshot's pages of group g in place of the sequence's. */
static void put_pages(KvCache *cache, Sequence *sequence, size_t g, const Pages *saved) {
    for (size_t i = 0; i < sequence->n_pages; i++) {
        Page **page = &sequence->pages[i * cache->n_groups + g];
        bool has = i >= saved->first && i < saved->first + saved->n;
        if (has) saved->pages[i - saved->first]->readers++;
        kvpages_release(cache, *page);
        *page = has ? saved->pages[i - saved->first] : NULL;
    }
    sequence->given_back[g] = saved->first;
}

bool snapshots_restore(KvCache *cache, Sequence *sequence) {
    KvSnapshot *held = sequence->held;
    bool found = sequence->n_snapshots > 0;
    if (held && !held->is_spare && held->position <= sequence->next &&
        snapshots_has_windows(cache, sequence, held->position) &&
        (!found || held->position >= newest_position(sequence))) {
        float *states = sequence->states;
        sequence->states = held->states;
        held->states = states;
        sequence->next = held->position;
        held->is_spare = true;
        kvpages_release_from(cache, sequence,
                             kvpages_for((size_t)(sequence->next - sequence->start)));
        return true;
    }
    if (!found) return false;
    const KvSnapshot *snapshot = sequence->snapshots[sequence->n_snapshots - 1];
    for (size_t g = 0; g < cache->n_groups; g++)
        if (cache->groups[g].window > 0) put_pages(cache, sequence, g, &snapshot->groups[g]);
    if (snapshot->states)
        memcpy(sequence->states, snapshot->states, cache->state_floats * sizeof(float));
    sequence->next = snapshot->position;
    kvpages_release_from(cache, sequence, kvpages_for((size_t)(sequence->next - sequence->start)));
    return true;
}

void snapshots_forget(KvCache *cache, Sequence *sequence, int32_t start) {
    snapshots_drop_behind(cache, sequence, INT32_MIN);
    kvcache_tell_mirror(cache, KV_RESET, (int32_t)(sequence - cache->sequences), start, 0);
}

void snapshots_end(KvCache *cache) {
    kvcache_tell_mirror(cache, KV_ENDED, 0, 0, 0);
}

Status snapshots_own_page(KvCache *cache, Sequence *sequence, size_t index, Error *error) {
    if (index % KV_PAGE == 0) return STATUS_OK;
    Page **row = &sequence->pages[index / KV_PAGE * cache->n_groups];
    for (size_t g = 0; g < cache->n_groups; g++) {
        if (!row[g] || row[g]->readers == 1) continue;
        Page *own = kvpages_new(cache, g, error);
        if (!own) return STATUS_FAILED;
        memcpy(own->data, row[g]->data, cache->groups[g].data_bytes);
        kvpages_release(cache, row[g]);
        row[g] = own;
    }
    return STATUS_OK;
}

/* ---- Marks and limits ---- */

void kvcache_limit_snapshots(KvCache *cache, size_t bytes) {
    cache->snapshot_bytes = bytes;
    obey_limit(cache);
    kvcache_tell_mirror(cache, KV_LIMITED, 0, (int64_t)(bytes > INT64_MAX ? INT64_MAX : bytes), 0);
}

static void mark(KvCache *cache, Sequence *sequence, int32_t position) {
    if (cache->snapshot_bytes == 0 || !kvcache_forgets(&cache->shape)) return;
    if (position > sequence->next || position <= sequence->start) return;
    if (cache->state_floats > 0 && position != sequence->next) return;
    if (!snapshots_has_windows(cache, sequence, position)) return;
    snapshots_add(cache, sequence, position, true);
    obey_limit(cache);
}

void kvcache_mark(KvCache *cache, int32_t id, int32_t position) {
    mark(cache, &cache->sequences[id], position);
    kvcache_tell_mirror(cache, KV_MARKED, id, position, 0);
}
