#include "ports/cluster/message.h"

#include <stdlib.h>
#include <string.h>

#include "kvcache/kvcache_mirror.h"
#include "kvcache/kvpages.h"
#include "ports/cluster/observed.h"

size_t message_bytes(const Header *h) {
    return sizeof *h + h->n_changes * sizeof(Change) + h->n_rows * sizeof(Row);
}

static Status message_refuse(const char *what, long long value, Error *error) {
    return error_set(error, "rank 0 sent what it cannot mean: %s %lld", what, value);
}

static bool has_rows(const Header *header) {
    return header->kind != MESSAGE_END && header->kind != MESSAGE_GO_ON;
}

static KvCache *cache_of(const MessageReceiver *receiver, int32_t cache) {
    bool known = cache >= 0 && (size_t)cache < receiver->n_caches;
    return known ? receiver->caches[cache] : NULL;
}

static bool has_sequence(const KvCache *cache, int32_t sequence) {
    return sequence >= 0 && (size_t)sequence < cache->n_sequences;
}

Status message_check_header(const MessageReceiver *receiver, const Header *header, Error *error) {
    size_t most_rows = receiver->model ? model_max_rows(receiver->model) : 0;
    size_t most_changes = receiver->model ? MESSAGE_MOST_CHANGES : 0;
    if (header->kind >= MESSAGE_KINDS) return message_refuse("message", header->kind, error);
    if (header->reserved != 0) return message_refuse("reserved field", header->reserved, error);
    if (header->n_changes > most_changes)
        return message_refuse("changes", header->n_changes, error);
    if (header->observed > OBSERVED_ALL) return message_refuse("observer", header->observed, error);
    bool fits =
        has_rows(header) ? header->n_rows >= 1 && header->n_rows <= most_rows : header->n_rows == 0;
    return fits ? STATUS_OK : message_refuse("rows", header->n_rows, error);
}

static Status check_new_cache(const MessageReceiver *receiver, const Change *change, Error *error) {
    size_t n = receiver->n_caches;
    if (change->cache < 0 || (size_t)change->cache > n || change->cache >= MESSAGE_MOST_CACHES ||
        cache_of(receiver, change->cache))
        return message_refuse("new cache", change->cache, error);
    if (change->type < 0 || change->type >= KV_TYPES)
        return message_refuse("type of cache", change->type, error);
    if (change->sequence < 0 || change->sequence > MESSAGE_MOST_SEQUENCES)
        return message_refuse("sequences", change->sequence, error);
    if (change->position < 0) return message_refuse("bytes of a cache", change->position, error);
    return STATUS_OK;
}

static Status check_adapters(const MessageReceiver *receiver, const Change *change, Error *error) {
    if (!receiver->lora) return message_refuse("adapters of sequence", change->sequence, error);
    if (change->sequence < 0 || change->sequence > MESSAGE_MOST_SEQUENCES)
        return message_refuse("sequence", change->sequence, error);
    if ((uint64_t)change->position & ~lora_all(receiver->lora))
        return message_refuse("adapters", change->position, error);
    return STATUS_OK;
}

/* Checks a change of the cache that rank 0 sends. */
Status message_check_change(const MessageReceiver *receiver, const Change *change, Error *error) {
    int64_t most = INT32_MAX;
    if (change->kind == CACHE_NEW) return check_new_cache(receiver, change, error);
    if (change->kind == ADAPTERS_SELECTED) return check_adapters(receiver, change, error);
    const KvCache *cache = cache_of(receiver, change->cache);
    if (!cache) return message_refuse("cache", change->cache, error);
    switch (change->kind) {
    case KV_ENDED:
        return STATUS_OK;
    case KV_LIMITED:
        most = INT64_MAX;
        break;
    case KV_RESET:
        most = INT32_MAX - (int64_t)model_context(receiver->model);
        break;
    case KV_HELD:
        most = model_max_rows(receiver->model);
        break;
    case KV_TRUNCATED:
    case KV_MARKED:
        break;
    case KV_FORKED:
        if (!has_sequence(cache, change->other) || change->other == change->sequence)
            return message_refuse("fork to sequence", change->other, error);
        break;
    default:
        return message_refuse("change", change->kind, error);
    }
    if (change->position < 0 || change->position > most)
        return message_refuse("position", change->position, error);
    if (change->kind != KV_LIMITED && !has_sequence(cache, change->sequence))
        return message_refuse("sequence", change->sequence, error);
    return STATUS_OK;
}

static int compare_sequences(const void *a, const void *b) {
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

/* The rows of a sequence follow each other: its pages are reserved once in a pass. */
static Status check_runs(const Row *rows, size_t n, Error *error) {
    size_t n_runs = 0;
    int32_t *runs = malloc(n * sizeof *runs), twice = -1;
    if (!runs) return error_set(error, "no memory to check %zu rows", n);
    for (size_t i = 0; i < n; i++)
        if (i == 0 || rows[i - 1].sequence != rows[i].sequence) runs[n_runs++] = rows[i].sequence;
    qsort(runs, n_runs, sizeof *runs, compare_sequences);
    for (size_t i = 1; i < n_runs; i++)
        if (runs[i - 1] == runs[i]) twice = runs[i];
    free(runs);
    return twice < 0 ? STATUS_OK : message_refuse("twice sequence", twice, error);
}

Status message_check_rows(const MessageReceiver *receiver, const Header *header, const Row *rows,
                          Error *error) {
    const KvCache *cache = cache_of(receiver, header->cache);
    if (!cache) return message_refuse("cache", header->cache, error);
    for (size_t i = 0; i < header->n_rows; i++) {
        unsigned char wants; /* reading a bool that is neither true nor false has no meaning */
        memcpy(&wants, &rows[i].wants_logits, 1);
        if (!has_sequence(cache, rows[i].sequence))
            return message_refuse("sequence", rows[i].sequence, error);
        if (wants > 1) return message_refuse("wish for logits", wants, error);
    }
    return check_runs(rows, header->n_rows, error);
}
