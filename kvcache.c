#include "kvcache.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/numbers.h"
#include "kernels/attention_q8.h"

_Static_assert((int)KV_PAGE == (int)Q8_PAGE, "pages have one size whatever their type");

/* Writes 8-bit pages; NULL in the core build. */
static const AttentionQ8 *const q8 = ATTENTION_Q8(attention_q8_reference);

/* An allocated page: this header, then for each layer and head the keys and the values. */
typedef struct Page {
    size_t readers; /* sequences that share this page */
    _Alignas(64) unsigned char data[];
} Page;

typedef struct Sequence {
    Page **pages;
    size_t n_pages, capacity;
    int32_t start; /* position of the first cached token */
    int32_t next;  /* position after the last */
    float *states; /* of all layers; NULL before the first reservation, or where no layer has one */
} Sequence;

/* Where a layer's data lie in a page. */
typedef struct LayerPlace {
    size_t offset;                 /* of the layer's first head in Page.data */
    size_t keys_bytes, head_bytes; /* of one head's keys, and of its keys and values */
    size_t state;                  /* index of the layer's state in Sequence.states */
} LayerPlace;

struct KvCache {
    KvShape shape;
    LayerPlace places[KV_MAX_LAYERS];
    size_t page_bytes, state_floats;
    size_t max_pages, n_pages;
    size_t n_sequences;
    Sequence sequences[];
};

const char *kv_type_name(KvType type) {
    static const char *const names[KV_TYPES] = {"f32", "f16", "q8"};
    return names[type];
}

KvShape kvcache_uniform_shape(uint32_t n_layers, uint32_t n_kv_heads, uint32_t head_dim,
                              KvType type) {
    KvShape shape = {.type = type, .n_layers = n_layers};
    for (uint32_t l = 0; l < n_layers; l++)
        shape.layers[l] =
            (KvLayer){.n_kv_heads = n_kv_heads, .key_dim = head_dim, .value_dim = head_dim};
    return shape;
}

static size_t element_bytes(KvType type) {
    return type == KV_F32 ? sizeof(float) : sizeof(uint16_t);
}

/* Bytes of one head's key, or value, at one position. */
static size_t key_bytes(KvType type, const KvLayer *layer) {
    return type == KV_Q8 ? q8_key_bytes(layer->key_dim) : layer->key_dim * element_bytes(type);
}

static size_t value_bytes(KvType type, const KvLayer *layer) {
    if (layer->values_in_keys) return 0;
    return type == KV_Q8 ? q8_value_bytes(layer->value_dim)
                         : layer->value_dim * element_bytes(type);
}

size_t kvcache_position_bytes(const KvShape *shape) {
    size_t bytes = 0;
    for (uint32_t l = 0; l < shape->n_layers; l++) {
        const KvLayer *layer = &shape->layers[l];
        bytes +=
            layer->n_kv_heads * (key_bytes(shape->type, layer) + value_bytes(shape->type, layer));
    }
    return bytes;
}

size_t kvcache_data_bytes(const KvShape *shape) {
    return KV_PAGE * kvcache_position_bytes(shape);
}

size_t kvcache_page_bytes(const KvShape *shape) {
    return sizeof(Page) + kvcache_data_bytes(shape);
}

Status kvcache_new(KvCache **out, const KvShape *shape, size_t max_sequences, size_t max_bytes,
                   Error *error) {
    size_t bytes;
    if (shape->type == KV_Q8 && !q8) return error_set(error, "this build has no 8-bit KV cache");
    if (!size_mul(max_sequences, sizeof(Sequence), &bytes) ||
        !size_add(bytes, sizeof(KvCache), &bytes))
        return error_set(error, "too many sequences: %zu", max_sequences);
    KvCache *cache = calloc(1, bytes);
    if (!cache) return error_set(error, "no memory for a cache of %zu sequences", max_sequences);
    cache->shape = *shape;
    size_t offset = 0;
    for (uint32_t l = 0; l < shape->n_layers; l++) {
        const KvLayer *layer = &shape->layers[l];
        size_t keys = KV_PAGE * key_bytes(shape->type, layer);
        size_t head = keys + KV_PAGE * value_bytes(shape->type, layer);
        cache->places[l] = (LayerPlace){offset, keys, head, cache->state_floats};
        offset += layer->n_kv_heads * head;
        cache->state_floats += round_up(layer->state_floats, 16);
    }
    cache->page_bytes = kvcache_page_bytes(shape);
    cache->max_pages = max_bytes ? max_bytes / cache->page_bytes : SIZE_MAX;
    cache->n_sequences = max_sequences;
    *out = cache;
    return STATUS_OK;
}

static void release_page(KvCache *cache, Page *page) {
    if (--page->readers > 0) return;
    free(page);
    cache->n_pages--;
}

static void release_from(KvCache *cache, Sequence *sequence, size_t first_page) {
    while (sequence->n_pages > first_page)
        release_page(cache, sequence->pages[--sequence->n_pages]);
}

void kvcache_free(KvCache *cache) {
    if (!cache) return;
    for (size_t i = 0; i < cache->n_sequences; i++) {
        release_from(cache, &cache->sequences[i], 0);
        free(cache->sequences[i].pages);
        free(cache->sequences[i].states);
    }
    free(cache);
}

const KvShape *kvcache_shape(const KvCache *cache) {
    return &cache->shape;
}
size_t kvcache_pages_used(const KvCache *cache) {
    return cache->n_pages;
}
size_t kvcache_pages_free(const KvCache *cache) {
    return cache->max_pages - cache->n_pages;
}

void kvcache_reset(KvCache *cache, int32_t id, int32_t start) {
    Sequence *sequence = &cache->sequences[id];
    release_from(cache, sequence, 0);
    sequence->start = sequence->next = start;
    if (sequence->states) memset(sequence->states, 0, cache->state_floats * sizeof(float));
}

int32_t kvcache_next(const KvCache *cache, int32_t id) {
    return cache->sequences[id].next;
}
int32_t kvcache_start(const KvCache *cache, int32_t id) {
    return cache->sequences[id].start;
}

static size_t pages_for(size_t positions) {
    return (positions + KV_PAGE - 1) / KV_PAGE;
}

static Page *new_page(KvCache *cache, Error *error) {
    if (cache->n_pages >= cache->max_pages) {
        error_set(error, "the KV cache is full: %zu pages of %d positions, %zu bytes each",
                  cache->n_pages, KV_PAGE, cache->page_bytes);
        return NULL;
    }
    /* One register more, because attention reads past the last row of values in whole registers. */
    Page *page = aligned_alloc(64, round_up(cache->page_bytes, 64) + 64);
    if (!page) {
        error_set(error, "no memory for a KV cache page of %zu bytes (%zu in use)",
                  cache->page_bytes, cache->n_pages);
        return NULL;
    }
    page->readers = 1;
    /* SIMD loads touch slots that are not yet written; zero them so that no lane holds NaN. */
    memset(page->data, 0, round_up(cache->page_bytes, 64) + 64 - sizeof *page);
    cache->n_pages++;
    return page;
}

static Status grow_table(Sequence *sequence, size_t n_pages, Error *error) {
    if (array_reserve(&sequence->pages, &sequence->capacity, n_pages, sizeof *sequence->pages))
        return STATUS_OK;
    return error_set(error, "no memory for a cache's page table");
}

static Status make_states(const KvCache *cache, Sequence *sequence, Error *error) {
    size_t bytes = cache->state_floats * sizeof(float);
    if (sequence->states || bytes == 0) return STATUS_OK;
    sequence->states = aligned_alloc(64, bytes);
    if (!sequence->states) return error_set(error, "no memory for a state of %zu bytes", bytes);
    memset(sequence->states, 0, bytes);
    return STATUS_OK;
}

Status kvcache_reserve(KvCache *cache, int32_t id, size_t n, Error *error) {
    Sequence *sequence = &cache->sequences[id];
    size_t used = (size_t)(sequence->next - sequence->start), before = sequence->n_pages;
    size_t need = pages_for(used + n);
    if (grow_table(sequence, need, error) != STATUS_OK ||
        make_states(cache, sequence, error) != STATUS_OK)
        return STATUS_FAILED;
    /* The last page is about to be written: copy it if other sequences share it. */
    if (used % KV_PAGE != 0 && n > 0) {
        Page *shared = sequence->pages[used / KV_PAGE];
        if (shared->readers > 1) {
            Page *own = new_page(cache, error);
            if (!own) return STATUS_FAILED;
            memcpy(own->data, shared->data, cache->page_bytes - sizeof *own);
            sequence->pages[used / KV_PAGE] = own;
            release_page(cache, shared);
        }
    }
    while (sequence->n_pages < need) {
        Page *page = new_page(cache, error);
        if (!page) {
            release_from(cache, sequence, before);
            return STATUS_FAILED;
        }
        sequence->pages[sequence->n_pages++] = page;
    }
    return STATUS_OK;
}

void kvcache_commit(KvCache *cache, int32_t id, size_t n) {
    cache->sequences[id].next += (int32_t)n;
}

void kvcache_truncate(KvCache *cache, int32_t id, int32_t position) {
    Sequence *sequence = &cache->sequences[id];
    if (position > sequence->next) return;
    if (position < sequence->start) position = sequence->start;
    if (sequence->states && position < sequence->next) {
        kvcache_reset(cache, id, sequence->start);
        return;
    }
    sequence->next = position;
    release_from(cache, sequence, pages_for((size_t)(position - sequence->start)));
}

Status kvcache_fork(KvCache *cache, int32_t from_id, int32_t position, int32_t to_id,
                    Error *error) {
    Sequence *from = &cache->sequences[from_id], *to = &cache->sequences[to_id];
    size_t n = pages_for((size_t)(position - from->start));
    if (grow_table(to, n, error) != STATUS_OK || make_states(cache, to, error) != STATUS_OK)
        return STATUS_FAILED;
    kvcache_reset(cache, to_id, from->start);
    if (from->states && position < from->next) return STATUS_OK;
    if (from->states) memcpy(to->states, from->states, cache->state_floats * sizeof(float));
    for (size_t i = 0; i < n; i++) {
        from->pages[i]->readers++;
        to->pages[i] = from->pages[i];
    }
    to->n_pages = n;
    to->next = position;
    return STATUS_OK;
}

float *kvcache_state(KvCache *cache, int32_t id, size_t layer) {
    return cache->sequences[id].states + cache->places[layer].state;
}

void *kvcache_page_data(const KvCache *cache, int32_t id, size_t page) {
    return cache->sequences[id].pages[page]->data;
}

void *kvcache_keys(const KvCache *cache, int32_t id, size_t page, size_t layer, size_t kv_head) {
    const LayerPlace *place = &cache->places[layer];
    return cache->sequences[id].pages[page]->data + place->offset + kv_head * place->head_bytes;
}

void *kvcache_values(const KvCache *cache, int32_t id, size_t page, size_t layer, size_t kv_head) {
    return (unsigned char *)kvcache_keys(cache, id, page, layer, kv_head) +
           cache->places[layer].keys_bytes;
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
    } else {
        uint16_t *half_keys = keys, *half_values = (uint16_t *)values + slot * value_dim;
        for (size_t i = 0; i < key_dim; i++) half_keys[i * KV_PAGE + slot] = float_to_half(key[i]);
        for (size_t i = 0; i < value_dim; i++) half_values[i] = float_to_half(value[i]);
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
