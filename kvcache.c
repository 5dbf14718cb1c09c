#include "kvcache.h"

#include <stdlib.h>
#include <string.h>

#include "base/numbers.h"
#include "kernels/activations.h"

/* A page as it is allocated: this header, then the layers, each its heads' keys and values. */
typedef struct Page {
    size_t readers; /* sequences whose tables name this page */
    _Alignas(64) unsigned char data[];
} Page;

typedef struct Sequence {
    Page **pages;
    size_t n_pages, capacity;
    int32_t start; /* position of the first cached token */
    int32_t next;  /* position after the last */
} Sequence;

struct KvCache {
    KvShape shape;
    size_t keys_bytes, values_bytes, layer_bytes; /* of one head in a page; of all */
    size_t page_bytes;
    size_t max_pages, n_pages;
    size_t n_sequences;
    Sequence sequences[];
};

const char *kv_type_name(KvType type) {
    static const char *const names[KV_TYPES] = {"f32", "f16", "q8"};
    return names[type];
}

/* Bytes of one head's keys, or values, at one position. */
static size_t key_bytes(const KvShape *shape) {
    size_t dim = shape->head_dim, groups = (dim + KV_Q8_GROUP - 1) / KV_Q8_GROUP;
    if (shape->type == KV_Q8) return round_up(dim, 4) + groups * sizeof(float);
    return dim * (shape->type == KV_F32 ? sizeof(float) : sizeof(uint16_t));
}

static size_t value_bytes(const KvShape *shape) {
    if (shape->type == KV_Q8) return round_up(shape->head_dim, 16) + sizeof(float);
    return key_bytes(shape);
}

size_t kvcache_position_bytes(const KvShape *shape) {
    return (size_t)shape->n_layers * shape->n_kv_heads * (key_bytes(shape) + value_bytes(shape));
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
    if (!size_mul(max_sequences, sizeof(Sequence), &bytes) ||
        !size_add(bytes, sizeof(KvCache), &bytes))
        return error_set(error, "too many sequences: %zu", max_sequences);
    KvCache *cache = calloc(1, bytes);
    if (!cache) return error_set(error, "no memory for a cache of %zu sequences", max_sequences);
    cache->shape = *shape;
    cache->keys_bytes = KV_PAGE * key_bytes(shape);
    cache->values_bytes = KV_PAGE * value_bytes(shape);
    cache->layer_bytes = (cache->keys_bytes + cache->values_bytes) * shape->n_kv_heads;
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
    /* One register more: attention.c may read past the last row of values. */
    Page *page = aligned_alloc(64, round_up(cache->page_bytes, 64) + 64);
    if (!page) {
        error_set(error, "no memory for a KV cache page of %zu bytes (%zu in use)",
                  cache->page_bytes, cache->n_pages);
        return NULL;
    }
    page->readers = 1;
    /* Keys that no token has written are read, in whole registers whose extra lanes are dropped,
     * and of 8 bits values, too, in fours with a weight of 0: let them be numbers. */
    memset(page->data, 0, round_up(cache->page_bytes, 64) + 64 - sizeof *page);
    cache->n_pages++;
    return page;
}

static bool grow_table(Sequence *sequence, size_t n_pages) {
    if (n_pages <= sequence->capacity) return true;
    size_t capacity = n_pages + n_pages / 2;
    Page **pages = realloc(sequence->pages, capacity * sizeof *pages);
    if (!pages) return false;
    sequence->pages = pages;
    sequence->capacity = capacity;
    return true;
}

Status kvcache_reserve(KvCache *cache, int32_t id, size_t n, Error *error) {
    Sequence *sequence = &cache->sequences[id];
    size_t used = (size_t)(sequence->next - sequence->start), before = sequence->n_pages;
    size_t need = pages_for(used + n);
    if (!grow_table(sequence, need)) return error_set(error, "no memory for a cache's page table");
    /* A page that others read is copied before this sequence writes behind its last token. */
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
    sequence->next = position;
    release_from(cache, sequence, pages_for((size_t)(position - sequence->start)));
}

Status kvcache_fork(KvCache *cache, int32_t from_id, int32_t position, int32_t to_id,
                    Error *error) {
    Sequence *from = &cache->sequences[from_id], *to = &cache->sequences[to_id];
    size_t n = pages_for((size_t)(position - from->start));
    if (!grow_table(to, n)) return error_set(error, "no memory for a cache's page table");
    kvcache_reset(cache, to_id, from->start);
    for (size_t i = 0; i < n; i++) {
        from->pages[i]->readers++;
        to->pages[i] = from->pages[i];
    }
    to->n_pages = n;
    to->next = position;
    return STATUS_OK;
}

void *kvcache_page_data(const KvCache *cache, int32_t id, size_t page) {
    return cache->sequences[id].pages[page]->data;
}

static unsigned char *page_layer(const KvCache *cache, int32_t id, size_t page, size_t layer) {
    return cache->sequences[id].pages[page]->data + layer * cache->layer_bytes;
}

void *kvcache_keys(const KvCache *cache, int32_t id, size_t page, size_t layer, size_t kv_head) {
    return page_layer(cache, id, page, layer) + kv_head * (cache->keys_bytes + cache->values_bytes);
}

void *kvcache_values(const KvCache *cache, int32_t id, size_t page, size_t layer, size_t kv_head) {
    return (unsigned char *)kvcache_keys(cache, id, page, layer, kv_head) + cache->keys_bytes;
}

/* The elements of a head from `first` on, a group of them: zeros behind the last, since codes are
 * made in whole registers. */
static size_t q8_group(const float *x, size_t dim, size_t first, float *group) {
    size_t n = dim - first < KV_Q8_GROUP ? dim - first : KV_Q8_GROUP;
    memset(group, 0, KV_Q8_GROUP * sizeof *group);
    memcpy(group, x + first, n * sizeof *group);
    return n;
}

static void store_key_q8(int8_t *keys, size_t dim, size_t slot, const float *key) {
    float *scales = (float *)(void *)(keys + round_up(dim, 4) * KV_PAGE);
    for (size_t first = 0; first < dim; first += KV_Q8_GROUP, scales += KV_PAGE) {
        float group[KV_Q8_GROUP];
        int8_t codes[KV_Q8_GROUP];
        int32_t offset;
        size_t n = q8_group(key, dim, first, group);
        scales[slot] = quantize_group(group, KV_Q8_GROUP, codes, &offset);
        for (size_t i = 0; i < n; i += 4)
            memcpy(keys + ((first + i) / 4 * KV_PAGE + slot) * 4, codes + i, 4);
    }
}

static void store_value_q8(int8_t *values, size_t dim, size_t slot, const float *value) {
    size_t width = round_up(dim, 16);
    float group[KV_Q8_GROUP];
    uint32_t largest = 0;
    for (size_t first = 0; first < dim; first += KV_Q8_GROUP) {
        q8_group(value, dim, first, group);
        uint32_t own = largest_magnitude(group, KV_Q8_GROUP);
        largest = own > largest ? own : largest;
    }
    float scale = code_scale(largest);
    int8_t *own = values + slot / 4 * width * 4 + slot % 4, codes[KV_Q8_GROUP] = {0};
    for (size_t first = 0; first < dim; first += KV_Q8_GROUP) {
        size_t n = q8_group(value, dim, first, group);
        if (scale > 0.0f)
            round_to_codes(group, KV_Q8_GROUP, 127.0f / float_from_bits(largest), codes);
        for (size_t i = 0; i < n; i++) own[(first + i) * 4] = codes[i];
    }
    ((float *)(void *)(values + width * KV_PAGE))[slot] = scale;
}

void kvcache_store(KvCache *cache, int32_t id, int32_t position, size_t layer, const float *k,
                   const float *v) {
    size_t index = (size_t)(position - cache->sequences[id].start), slot = index % KV_PAGE;
    size_t head_dim = cache->shape.head_dim;
    for (size_t head = 0; head < cache->shape.n_kv_heads; head++) {
        void *keys = kvcache_keys(cache, id, index / KV_PAGE, layer, head);
        void *values = kvcache_values(cache, id, index / KV_PAGE, layer, head);
        const float *key = k + head * head_dim, *value = v + head * head_dim;
        if (cache->shape.type == KV_F32) {
            for (size_t i = 0; i < head_dim; i++) ((float *)keys)[i * KV_PAGE + slot] = key[i];
            memcpy((float *)values + slot * head_dim, value, head_dim * sizeof *value);
        } else if (cache->shape.type == KV_Q8) {
            store_key_q8(keys, head_dim, slot, key);
            store_value_q8(values, head_dim, slot, value);
        } else {
            for (size_t i = 0; i < head_dim; i++)
                ((uint16_t *)keys)[i * KV_PAGE + slot] = float_to_half(key[i]);
            for (size_t i = 0; i < head_dim; i++)
                ((uint16_t *)values)[slot * head_dim + i] = float_to_half(value[i]);
        }
    }
}
