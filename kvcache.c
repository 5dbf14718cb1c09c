#include "kvcache.h"

#include <stdlib.h>
#include <string.h>

#include "base/numbers.h"
#include "kvcache/kvcache_snapshots_internal.h"
#include "kvcache/kvpages.h"
#include "kernels/attention_q8.h"
#include "kernels/bfloat.h"

_Static_assert((int)KV_PAGE == (int)Q8_PAGE && (int)KV_PAGE == (int)BF16_PAGE,
               "pages have one size whatever their type");

/* Writes 8-bit pages. The core build has no functions there (core/core_absent.c). */
static const AttentionQ8 *const q8 = &attention_q8_reference;

Status kvcache_new(KvCache **out, const KvShape *shape, size_t max_sequences, size_t max_bytes,
                   Error *error) {
    size_t bytes;
    if (shape->type == KV_Q8 && !q8->store_key)
        return error_set(error, "this build has no 8-bit KV cache");
    if (!size_mul(max_sequences, sizeof(Sequence), &bytes) ||
        !size_add(bytes, sizeof(KvCache), &bytes))
        return error_set(error, "too many sequences: %zu", max_sequences);
    KvCache *cache = calloc(1, bytes);
    if (!cache) return error_set(error, "no memory for a cache of %zu sequences", max_sequences);
    cache->shape = *shape;
    kvpages_layout(cache);
    cache->max_bytes = max_bytes ? max_bytes : SIZE_MAX;
    cache->n_sequences = max_sequences;
    *out = cache;
    return STATUS_OK;
}

void kvcache_free(KvCache *cache) {
    if (!cache) return;
    for (size_t i = 0; i < cache->n_sequences; i++) {
        kvcache_reset(cache, (int32_t)i, 0);
        free(cache->sequences[i].pages);
    }
    snapshots_end(cache);
    kvpages_free_spares(cache);
    free(cache);
}

const KvShape *kvcache_shape(const KvCache *cache) {
    return &cache->shape;
}
size_t kvcache_bytes_used(const KvCache *cache) {
    return cache->bytes;
}
void kvcache_reset(KvCache *cache, int32_t id, int32_t start) {
    Sequence *sequence = &cache->sequences[id];
    snapshots_forget(cache, sequence, start);
    kvpages_empty(cache, sequence, start);
}

int32_t kvcache_next(const KvCache *cache, int32_t id) {
    return cache->sequences[id].next;
}
int32_t kvcache_start(const KvCache *cache, int32_t id) {
    return cache->sequences[id].start;
}

/* Appends a page for each group that stores something. */
static Status add_pages(KvCache *cache, Sequence *sequence, Error *error) {
    Page **row = &sequence->pages[sequence->n_pages++ * cache->n_groups];
    for (size_t g = 0; g < cache->n_groups; g++) row[g] = NULL;
    for (size_t g = 0; g < cache->n_groups; g++)
        if (cache->groups[g].data_bytes > 0 && !(row[g] = kvpages_new(cache, g, error)))
            return STATUS_FAILED;
    return STATUS_OK;
}

static Status begin_states(KvCache *cache, Sequence *sequence, Error *error) {
    if (cache->state_floats == 0 || sequence->states) return STATUS_OK;
    if (!(sequence->states = kvpages_new_states(cache, error))) return STATUS_FAILED;
    memset(sequence->states, 0, cache->state_floats * sizeof(float));
    return STATUS_OK;
}

/* Makes room for n more positions of a sequence: pages that are its own, and states. After a
 * failure it has the pages that it had before. */
static Status reserve(KvCache *cache, Sequence *sequence, size_t n, Error *error) {
    size_t used = (size_t)(sequence->next - sequence->start), before = sequence->n_pages;
    Status status = STATUS_OK;
    if (!kvpages_grow(cache, sequence, kvpages_for(used + n)))
        return error_set(error, "no memory for a cache's page table");
    if (n > 0) status = snapshots_own_page(cache, sequence, used, error);
    while (status == STATUS_OK && sequence->n_pages < kvpages_for(used + n))
        status = add_pages(cache, sequence, error);
    if (status == STATUS_OK) status = begin_states(cache, sequence, error);
    if (status != STATUS_OK) kvpages_release_from(cache, sequence, before);
    return status;
}

Status kvcache_reserve(KvCache *cache, int32_t id, size_t n, Error *error) {
    while (reserve(cache, &cache->sequences[id], n, error) != STATUS_OK)
        if (!snapshots_shed(cache)) return STATUS_FAILED;
    return STATUS_OK;
}

/* Releases the pages that no query sees any more, even if the last KV_SLACK positions are removed.
 */
static void release_unseen(KvCache *cache, Sequence *sequence) {
    size_t used = (size_t)(sequence->next - sequence->start);
    for (size_t g = 0; g < cache->n_groups; g++) {
        size_t end = kvpages_first_seen(&cache->groups[g], used > KV_SLACK ? used - KV_SLACK : 0);
        for (; sequence->given_back[g] < end; sequence->given_back[g]++) {
            Page **page = &sequence->pages[sequence->given_back[g] * cache->n_groups + g];
            kvpages_release(cache, *page);
            *page = NULL;
        }
    }
}

void kvcache_commit(KvCache *cache, int32_t id, size_t n) {
    Sequence *sequence = &cache->sequences[id];
    sequence->next += (int32_t)n;
    snapshots_commit(cache, sequence, n);
    release_unseen(cache, sequence);
}

size_t kvcache_call_rows(const KvCache *cache, int32_t id, size_t left, size_t most) {
    return snapshots_call_rows(cache, &cache->sequences[id], left, most);
}

void kvcache_cancel(KvCache *cache, int32_t id, bool ran) {
    Sequence *sequence = &cache->sequences[id];
    kvpages_release_from(cache, sequence, kvpages_for((size_t)(sequence->next - sequence->start)));
    if (sequence->next == sequence->start || (ran && cache->state_floats > 0))
        if (!snapshots_restore(cache, sequence)) kvcache_reset(cache, id, sequence->start);
}

void *kvcache_keys(const KvCache *cache, int32_t id, size_t page, size_t layer, size_t kv_head) {
    const LayerPlace *place = &cache->places[layer];
    Page *held = cache->sequences[id].pages[page * cache->n_groups + place->group];
    return held->data + place->offset + kv_head * place->head_bytes;
}

void *kvcache_values(const KvCache *cache, int32_t id, size_t page, size_t layer, size_t kv_head) {
    return (unsigned char *)kvcache_keys(cache, id, page, layer, kv_head) +
           cache->places[layer].keys_bytes;
}

float *kvcache_state(KvCache *cache, int32_t id, size_t layer) {
    return cache->sequences[id].states + cache->places[layer].state;
}

/* Stores one head's key and value at position `slot` of a page. */
static void store_head(KvType type, const KvLayer *layer, void *keys, void *values, size_t slot,
                       const float *key, const float *value) {
    size_t key_dim = layer->key_dim, value_dim = layer->values_in_keys ? 0 : layer->value_dim;
    if (type == KV_Q8) {
        q8->store_key(keys, key_dim, slot, key);
        if (value_dim > 0) q8->store_value(values, value_dim, slot, value);
    } else if (type == KV_F32) {
        for (size_t i = 0; i < key_dim; i++) ((float *)keys)[i * KV_PAGE + slot] = key[i];
        memcpy((float *)values + slot * value_dim, value, value_dim * sizeof *value);
    } else if (type == KV_BF16) {
        uint16_t *bf16_keys = keys, *bf16_values = values;
        for (size_t i = 0; i < key_dim; i++)
            bf16_keys[bf16_key_place(key_dim, i, slot)] = bfloat_round_floored(key[i]);
        for (size_t i = 0; i < value_dim; i++)
            bf16_values[bf16_value_place(i, slot)] = bfloat_round_floored(value[i]);
    } else {
        uint16_t *half_keys = keys, *half_values = (uint16_t *)values + slot * value_dim;
        for (size_t i = 0; i < key_dim; i++)
            half_keys[i * KV_PAGE + slot] = numbers_float_to_half(key[i]);
        for (size_t i = 0; i < value_dim; i++) half_values[i] = numbers_float_to_half(value[i]);
    }
}

void kvcache_store(KvCache *cache, int32_t id, int32_t position, size_t l, const float *k,
                   const float *v) {
    const KvLayer *layer = &cache->shape.layers[l];
    size_t index = (size_t)(position - cache->sequences[id].start);
    for (size_t head = 0; head < layer->n_kv_heads; head++)
        store_head(cache->shape.type, layer, kvcache_keys(cache, id, index / KV_PAGE, l, head),
                   kvcache_values(cache, id, index / KV_PAGE, l, head), index % KV_PAGE,
                   k + head * layer->key_dim, v + head * layer->value_dim);
}
