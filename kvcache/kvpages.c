#include "kvcache/kvpages.h"

#include <stdlib.h>
#include <string.h>

#include "base/address_sanitizer.h"
#include "base/array.h"

/* So many bytes of a cache's released pages wait for the next sequence: where sequences are short
 * and the model is small, pages come and go, and the system takes a page fault for each 4,096 bytes
 * that it gives anew. AddressSanitizer sees who reads a released page only if none waits. */
enum { SPARE_BYTES = ADDRESS_SANITIZER ? 0 : 2 << 20 };

/* Bytes of one head's value at one position. */
static size_t value_bytes(KvType type, const KvLayer *layer) {
    if (layer->values_in_keys) return kv_key_bytes(type, layer->index_dim);
    if (type == KV_Q8) return q8_value_bytes(layer->value_dim);
    if (type == KV_BF16) return bf16_value_bytes(layer->value_dim);
    return kv_key_bytes(type, layer->value_dim);
}

static size_t group_of(KvCache *cache, uint32_t window) {
    size_t g = 0;
    while (g < cache->n_groups && cache->groups[g].window != window) g++;
    if (g == KV_GROUPS) return 0;
    if (g == cache->n_groups) cache->groups[cache->n_groups++].window = window;
    return g;
}

void kvpages_layout(KvCache *cache) {
    const KvShape *shape = &cache->shape;
    cache->n_groups = 1; /* the group of layers without a window comes first, even if it is empty */
    for (uint32_t l = 0; l < shape->n_layers; l++) {
        const KvLayer *layer = &shape->layers[l];
        Group *group = &cache->groups[group_of(cache, layer->n_kv_heads ? layer->window : 0)];
        size_t keys = KV_PAGE * kv_key_bytes(shape->type, layer->key_dim);
        size_t head = keys + KV_PAGE * value_bytes(shape->type, layer);
        cache->places[l] = (LayerPlace){
            (size_t)(group - cache->groups), group->data_bytes, keys, head, cache->state_floats, 0};
        group->data_bytes += layer->n_kv_heads * head;
        cache->places[l].pools = cache->groups[0].data_bytes;
        cache->groups[0].data_bytes += kv_pool_bytes(shape->type, layer);
        cache->state_floats += round_up(layer->state_floats, 16);
    }
}

size_t kvpages_bytes(const Group *group) {
    if (group->data_bytes == 0) return 0;
    /* One register more, because attention reads past the last row of values in whole registers. */
    return sizeof(Page) + round_up(group->data_bytes, 64) + 64;
}

/* Allocates memory that counts against the cache's limit, and frees spare pages where the limit or
 * the system's memory demands it. Returns NULL where there is not enough. */
static void *kvpages_allocate(KvCache *cache, size_t bytes, Error *error) {
    if (bytes > cache->max_bytes - cache->bytes - cache->spare_bytes) kvpages_free_spares(cache);
    if (bytes > cache->max_bytes - cache->bytes) {
        error_set(error, "the KV cache is full: %zu of %zu bytes are in use, and %zu are needed",
                  cache->bytes, cache->max_bytes, bytes);
        return NULL;
    }
    void *memory = aligned_alloc(64, bytes);
    if (!memory && cache->spare_bytes > 0) {
        kvpages_free_spares(cache);
        memory = aligned_alloc(64, bytes);
    }
    if (!memory) {
        error_set(error, "no memory for %zu bytes of the KV cache (%zu are in use)", bytes,
                  cache->bytes);
        return NULL;
    }
    cache->bytes += bytes;
    return memory;
}

Page *kvpages_new(KvCache *cache, size_t group, Error *error) {
    size_t bytes = kvpages_bytes(&cache->groups[group]);
    Page *page = cache->groups[group].spare;
    if (page) {
        cache->groups[group].spare = page->next;
        cache->spare_bytes -= bytes;
        cache->bytes += bytes;
    } else if (!(page = kvpages_allocate(cache, bytes, error))) {
        return NULL;
    }
    /* SIMD loads touch slots that are not yet written; zero them so that no lane holds NaN. */
    memset(page, 0, bytes);
    page->readers = 1;
    page->group = group;
    return page;
}

void kvpages_release(KvCache *cache, Page *page) {
    if (!page || --page->readers > 0) return;
    Group *group = &cache->groups[page->group];
    size_t bytes = kvpages_bytes(group);
    cache->bytes -= bytes;
    if (bytes > SPARE_BYTES - cache->spare_bytes) {
        free(page);
        return;
    }
    cache->spare_bytes += bytes;
    page->next = group->spare;
    group->spare = page;
}

void kvpages_free_spares(KvCache *cache) {
    for (size_t g = 0; g < cache->n_groups; g++) {
        for (Page *page; (page = cache->groups[g].spare);) {
            cache->groups[g].spare = page->next;
            free(page);
        }
    }
    cache->spare_bytes = 0;
}

float *kvpages_new_states(KvCache *cache, Error *error) {
    return kvpages_allocate(cache, cache->state_floats * sizeof(float), error);
}

void kvpages_free_states(KvCache *cache, float *states) {
    if (states) cache->bytes -= cache->state_floats * sizeof(float);
    free(states);
}

bool kvpages_grow(const KvCache *cache, Sequence *sequence, size_t n_pages) {
    return array_reserve(&sequence->pages, &sequence->capacity, n_pages,
                         cache->n_groups * sizeof *sequence->pages);
}

void kvpages_release_from(KvCache *cache, Sequence *sequence, size_t first) {
    while (sequence->n_pages > first) {
        Page **row = &sequence->pages[--sequence->n_pages * cache->n_groups];
        for (size_t g = 0; g < cache->n_groups; g++) kvpages_release(cache, row[g]);
    }
}

void kvpages_empty(KvCache *cache, Sequence *sequence, int32_t start) {
    kvpages_release_from(cache, sequence, 0);
    kvpages_free_states(cache, sequence->states);
    sequence->states = NULL;
    memset(sequence->given_back, 0, sizeof sequence->given_back);
    sequence->start = sequence->next = start;
}
