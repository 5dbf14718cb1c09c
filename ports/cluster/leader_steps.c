#include "ports/cluster/leader_steps.h"

#include <stdlib.h>
#include <string.h>

#include "kvcache/kvcache_snapshots.h"
#include "kvcache/kvcache_fork.h"
#include "base/array.h"
#include "kvcache/kvpages.h"
#include "ports/cluster/message.h"
#include "kvcache.h"

/* ---- Rank 0 ---- */

struct Leader {
    KvMirror mirror; /* first: the caches know it alone */
    Wire *wire;
    const KvCache **caches; /* by their numbers; NULL: freed */
    size_t n_caches, caches_capacity;
    Change *changes;
    size_t n_changes, changes_capacity, n_passes;
    unsigned char *message;
    size_t message_capacity;
    const Lora *lora;   /* NULL: none */
    uint64_t *selected; /* [n_selected] the adapters of each sequence that were told */
    size_t n_selected, selected_capacity;
};

static void send(Leader *leader, Header header, const Row *rows);

/* Appends a change of the cache to those that the next message tells the other ranks; a full list
 * is sent at once. */
static void steps_add(Leader *leader, const Change *change) {
    if (leader->n_changes == MESSAGE_MOST_CHANGES)
        send(leader, (Header){.kind = MESSAGE_GO_ON}, NULL);
    if (!array_reserve(&leader->changes, &leader->changes_capacity, leader->n_changes + 1,
                       sizeof *change))
        wire_fail(leader->wire, "no memory to tell what happens to the cache");
    leader->changes[leader->n_changes++] = *change;
}

/* The cache's number; a new cache gets one, and is told of. */
static int32_t number_of(Leader *leader, const KvCache *cache) {
    size_t i = 0;
    while (i < leader->n_caches && leader->caches[i] != cache) i++;
    if (i < leader->n_caches) return (int32_t)i;
    for (i = 0; i < leader->n_caches && leader->caches[i];) i++;
    if (i == MESSAGE_MOST_CACHES) wire_fail(leader->wire, "too many caches for ranks");
    if (i == leader->n_caches && !array_reserve(&leader->caches, &leader->caches_capacity,
                                                ++leader->n_caches, sizeof *leader->caches))
        wire_fail(leader->wire, "no memory for another cache");
    leader->caches[i] = cache;
    steps_add(leader,
              &(Change){.kind = CACHE_NEW,
                        .cache = (int32_t)i,
                        .sequence = (int32_t)cache->n_sequences,
                        .position = cache->max_bytes > INT64_MAX ? 0 : (int64_t)cache->max_bytes,
                        .type = (int32_t)cache->shape.type});
    return (int32_t)i;
}

static void changed(KvMirror *mirror, const KvCache *cache, KvChange kind, int32_t sequence,
                    int64_t position, int32_t other) {
    Leader *leader = (Leader *)mirror;
    Change change = {.kind = (int32_t)kind,
                     .cache = number_of(leader, cache),
                     .sequence = sequence,
                     .other = other,
                     .position = position};
    steps_add(leader, &change);
    if (kind == KV_ENDED) leader->caches[change.cache] = NULL;
}

/* Broadcasts a step to the other ranks: its header, the changes of the cache since the last one,
 * and the rows of a pass. A long message is sent in two parts, the first of fixed size. */
static void send(Leader *leader, Header header, const Row *rows) {
    header.n_changes = (uint32_t)leader->n_changes;
    size_t bytes = message_bytes(&header), room = bytes > MESSAGE_SHORT ? bytes : MESSAGE_SHORT;
    if (!array_reserve(&leader->message, &leader->message_capacity, room, 1))
        wire_fail(leader->wire, "no memory for a message of %zu bytes", bytes);
    unsigned char *at = leader->message;
    memcpy(at, &header, sizeof header);
    at += sizeof header;
    if (leader->n_changes > 0)
        memcpy(at, leader->changes, leader->n_changes * sizeof *leader->changes);
    at += leader->n_changes * sizeof *leader->changes;
    if (rows) memcpy(at, rows, header.n_rows * sizeof *rows);
    leader->n_changes = 0;
    wire_broadcast(leader->wire, leader->message, MESSAGE_SHORT);
    if (bytes > MESSAGE_SHORT)
        wire_broadcast(leader->wire, leader->message + MESSAGE_SHORT, bytes - MESSAGE_SHORT);
}

Status leader_new(Leader **out, Wire *wire, Error *error) {
    Leader *leader = calloc(1, sizeof *leader);
    if (!leader) return error_set(error, "no memory for rank 0");
    leader->mirror.changed = changed;
    leader->wire = wire;
    *out = leader;
    return STATUS_OK;
}

void leader_free(Leader *leader) {
    if (!leader) return;
    free(leader->caches);
    free(leader->changes);
    free(leader->message);
    free(leader->selected);
    free(leader);
}

KvMirror *leader_mirror(Leader *leader) {
    return &leader->mirror;
}

void leader_set_lora(Leader *leader, const Lora *lora) {
    leader->lora = lora;
}

/* Tells which adapters the rows have, where that has changed. */
static void tell_adapters(Leader *leader, const Row *rows, size_t n) {
    for (size_t i = 0; i < n; i++) {
        size_t sequence = (size_t)rows[i].sequence;
        uint64_t now = lora_selected(leader->lora, rows[i].sequence);
        if (!array_reserve(&leader->selected, &leader->selected_capacity, sequence + 1,
                           sizeof *leader->selected))
            wire_fail(leader->wire, "no memory for the adapters of %zu sequences", sequence + 1);
        while (leader->n_selected <= sequence)
            leader->selected[leader->n_selected++] = lora_all(leader->lora);
        if (leader->selected[sequence] == now) continue;
        leader->selected[sequence] = now;
        steps_add(leader, &(Change){.kind = ADAPTERS_SELECTED,
                                    .sequence = rows[i].sequence,
                                    .position = (int64_t)now});
    }
}

void leader_pass(Leader *leader, const ForwardPass *pass, bool fits) {
    Header header = {.kind = !fits          ? MESSAGE_FULL
                             : pass->logits ? MESSAGE_PASS
                                            : MESSAGE_STATES,
                     .n_rows = (uint32_t)pass->n,
                     .cache = number_of(leader, pass->cache),
                     .observed = observed_kinds(pass->model)};
    if (leader->lora) tell_adapters(leader, pass->rows, pass->n);
    send(leader, header, pass->rows);
    leader->n_passes++;
}

size_t leader_passes(const Leader *leader) {
    return leader->n_passes;
}

void leader_say(Leader *leader, bool goes_on) {
    send(leader, (Header){.kind = goes_on ? MESSAGE_GO_ON : MESSAGE_END}, NULL);
}

/* ---- Followers ---- */

typedef struct Follower {
    Wire *wire;
    Model *model;
    KvCache **caches;
    size_t n_caches, caches_capacity;
    Lora *lora;
    Observed *observed;
    const size_t *begun; /* passes of the model, which count when they exchange something */
    float *logits;       /* [logits_rows][vocab_size] */
    size_t logits_capacity;
    unsigned char *message;
    size_t message_capacity;
} Follower;

static MessageReceiver receiver_of(const Follower *f) {
    return (MessageReceiver){f->model, f->lora, f->caches, f->n_caches};
}

static Status make_room(Follower *f, size_t bytes, Error *error) {
    if (array_reserve(&f->message, &f->message_capacity, bytes, 1)) return STATUS_OK;
    return error_set(error, "no memory for a message of %zu bytes", bytes);
}

static Status receive(Follower *f, Header *header, Error *error) {
    const MessageReceiver receiver = receiver_of(f);
    Status status = make_room(f, MESSAGE_SHORT, error);
    if (status != STATUS_OK) return status;
    wire_broadcast(f->wire, f->message, MESSAGE_SHORT);
    memcpy(header, f->message, sizeof *header);
    status = message_check_header(&receiver, header, error);
    if (status != STATUS_OK) return status;
    size_t bytes = message_bytes(header);
    if (bytes <= MESSAGE_SHORT) return STATUS_OK;
    status = make_room(f, bytes, error);
    if (status != STATUS_OK) return status;
    wire_broadcast(f->wire, f->message + MESSAGE_SHORT, bytes - MESSAGE_SHORT);
    return STATUS_OK;
}

static Status make_cache(Follower *f, const Change *change, Error *error) {
    const KvShape shape = model_kv_shape(f->model, (KvType)change->type);
    size_t i = (size_t)change->cache;
    if (i == f->n_caches) {
        if (!array_reserve(&f->caches, &f->caches_capacity, i + 1, sizeof *f->caches))
            return error_set(error, "no memory for another cache");
        f->caches[f->n_caches++] = NULL;
    }
    return kvcache_new(&f->caches[i], &shape, (size_t)change->sequence, (size_t)change->position,
                       error);
}

/* Does to a cache of this rank what rank 0 did to its own. */
static Status steps_apply(Follower *f, const Change *change, Error *error) {
    const MessageReceiver receiver = receiver_of(f);
    Error ignored; /* rank 0 fails in the same way */
    int32_t sequence = change->sequence, position = (int32_t)change->position;
    Status status = message_check_change(&receiver, change, error);
    if (status != STATUS_OK) return status;
    if (change->kind == CACHE_NEW) return make_cache(f, change, error);
    if (change->kind == ADAPTERS_SELECTED) {
        if (lora_select(f->lora, sequence, (uint64_t)change->position)) return STATUS_OK;
        return error_set(error, "no memory for the adapters of sequence %d", sequence);
    }
    KvCache *cache = f->caches[change->cache];
    switch ((KvChange)change->kind) {
    case KV_ENDED:
        kvcache_free(cache);
        f->caches[change->cache] = NULL;
        break;
    case KV_RESET:
        kvcache_reset(cache, sequence, position);
        break;
    case KV_TRUNCATED:
        kvcache_truncate(cache, sequence, position);
        break;
    case KV_FORKED:
        kvcache_fork(cache, sequence, position, change->other, &ignored);
        break;
    case KV_MARKED:
        kvcache_mark(cache, sequence, position);
        break;
    case KV_HELD:
        kvcache_hold(cache, sequence, (size_t)change->position);
        break;
    case KV_LIMITED:
        kvcache_limit_snapshots(cache, (size_t)change->position);
        break;
    }
    return STATUS_OK;
}

/* Reserves the rows' positions. Fails where the cache has room and rank 0's has not (`fits`), or
 * the other way round. */
static Status steps_reserve(KvCache *cache, const Row *rows, size_t n, bool fits, Error *error) {
    bool room = true;
    size_t first = 0, end;
    for (; first < n && room; first = end) {
        int32_t sequence = rows[first].sequence;
        for (end = first + 1; end < n && rows[end].sequence == sequence;) end++;
        if (kvcache_next(cache, sequence) != rows[first].position)
            return error_set(error, "is out of step: sequence %d goes on at %d, not %d", sequence,
                             kvcache_next(cache, sequence), rows[first].position);
        room = kvcache_reserve(cache, sequence, end - first, error) == STATUS_OK;
        if (!room) end = first;
    }
    if (room && !fits) return error_set(error, "has more room for the cache than rank 0");
    if (!room && fits) return STATUS_FAILED;
    for (size_t i = 0; i < first && !fits; i = end) {
        for (end = i + 1; end < first && rows[end].sequence == rows[i].sequence;) end++;
        kvcache_cancel(cache, rows[i].sequence, false);
    }
    return STATUS_OK;
}

static Status run_pass(Follower *f, const Header *header, const Row *rows, Error *error) {
    const MessageReceiver receiver = receiver_of(f);
    bool fits = header->kind != MESSAGE_FULL;
    size_t wanted = 0, vocab = model_config(f->model)->vocab_size, begun = *f->begun;
    Status status = message_check_rows(&receiver, header, rows, error);
    if (status != STATUS_OK) return status;
    KvCache *cache = f->caches[header->cache];
    for (size_t i = 0; i < header->n_rows; i++) wanted += rows[i].wants_logits;
    if (!array_reserve(&f->logits, &f->logits_capacity, wanted * vocab, sizeof *f->logits))
        return error_set(error, "no memory for the logits of %zu rows", wanted);
    status = steps_reserve(cache, rows, header->n_rows, fits, error);
    if (status != STATUS_OK || !fits) return status;
    observed_begin(f->observed, f->model, header->observed);
    status = model_forward(f->model, cache, rows, header->n_rows,
                           header->kind == MESSAGE_PASS ? f->logits : NULL, error);
    /* A value that is not finite is one on all ranks: rank 0 says it, and goes on or ends. */
    return *f->begun > begun ? STATUS_OK : status;
}

/* Handles one message; *kind receives what it was. */
static Status follow(Follower *f, MessageKind *kind, Error *error) {
    Header header;
    Status status = receive(f, &header, error);
    if (status != STATUS_OK) return status;
    const Change *changes = (const Change *)(f->message + sizeof header);
    *kind = (MessageKind)header.kind;
    for (size_t i = 0; i < header.n_changes && status == STATUS_OK; i++)
        status = steps_apply(f, &changes[i], error);
    if (status == STATUS_OK && header.n_rows > 0)
        status = run_pass(f, &header, (const Row *)(changes + header.n_changes), error);
    return status;
}

static void follower_free(Follower *f) {
    for (size_t i = 0; i < f->n_caches; i++) kvcache_free(f->caches[i]);
    free(f->caches);
    free(f->logits);
    free(f->message);
}

Status steps_follower_wait(Wire *wire, bool *goes_on, Error *error) {
    Follower f = {.wire = wire};
    MessageKind kind = MESSAGE_END;
    Status status = follow(&f, &kind, error);
    *goes_on = status == STATUS_OK && kind == MESSAGE_GO_ON;
    follower_free(&f);
    return status;
}

Status steps_follower_run(Wire *wire, const Following *following, Error *error) {
    Follower f = {.wire = wire,
                  .model = following->model,
                  .lora = following->lora,
                  .observed = following->observed,
                  .begun = following->begun};
    MessageKind kind = MESSAGE_GO_ON;
    Status status = STATUS_OK;
    while (status == STATUS_OK && kind != MESSAGE_END) status = follow(&f, &kind, error);
    follower_free(&f);
    return status;
}
