#include "layers/attention/gathered.h"

#include <string.h>

#include "base/numbers.h"
#include "kvcache/kvpages.h"
#include "kernels/attention_q8.h"

size_t gathered_cache_bytes(void) {
    return round_up(sizeof(KvCache) + GATHERED_ROWS * sizeof(Sequence), 64);
}

/* One page of the layer, with its header. */
static size_t page_bytes(KvType type, const KvLayer *layer) {
    KvCache cache = {.shape = {.type = type, .n_layers = 1, .layers = {*layer}}};
    kvpages_layout(&cache);
    return round_up(kvpages_bytes(&cache.groups[0]), 64);
}

size_t gathered_row_bytes(const KvLayer *layer, size_t n) {
    size_t pages = kvpages_for(n), most = 0;
    for (KvType type = 0; type < KV_TYPES; type++) {
        size_t bytes = page_bytes(type, layer);
        most = bytes > most ? bytes : most;
    }
    return pages * most + round_up(pages * sizeof(Page *), 64);
}

KvCache *gathered_begin(void *memory, KvType type, const KvLayer *layer) {
    KvCache *gathered = memory;
    memset(gathered, 0, gathered_cache_bytes());
    gathered->shape.type = type;
    gathered->shape.n_layers = 1;
    gathered->shape.layers[0] = *layer;
    gathered->n_sequences = GATHERED_ROWS;
    kvpages_layout(gathered);
    return gathered;
}

void gathered_place(KvCache *gathered, size_t row, void *memory, size_t n) {
    Sequence *sequence = &gathered->sequences[row];
    size_t bytes = round_up(kvpages_bytes(&gathered->groups[0]), 64);
    sequence->n_pages = sequence->capacity = kvpages_for(n);
    sequence->next = (int32_t)n;
    sequence->pages = memory;
    char *pages = (char *)memory + round_up(sequence->n_pages * sizeof(Page *), 64);
    for (size_t i = 0; i < sequence->n_pages; i++) sequence->pages[i] = (Page *)(pages + i * bytes);
}

/* Copies the units of the positions in slots[0 ... n - 1] to those in the slots from `first` on. */
#define COPY_UNITS(unit)                                                                           \
    for (size_t row = 0; row < kv_units(type, key_dim); row++)                                     \
        for (size_t i = 0; i < n; i++)                                                             \
            ((unit *)to)[kv_unit_place(type, key_dim, row, first + i)] =                           \
                ((const unit *)from)[kv_unit_place(type, key_dim, row, slots[i] % KV_PAGE)];

static void copy_units(KvType type, size_t key_dim, void *to, size_t first, const void *from,
                       const uint32_t *slots, size_t n) {
    if (type == KV_F16) {
        COPY_UNITS(uint16_t)
    } else {
        COPY_UNITS(uint32_t)
    }
}

void gathered_fill(KvCache *gathered, size_t row, size_t page, const KvCache *cache,
                   int32_t sequence, size_t from_layer, const uint32_t *indices, size_t n) {
    const KvShape *shape = kvcache_shape(gathered);
    char *to = kvcache_keys(gathered, (int32_t)row, page, 0, 0);
    /* Attention reads whole pages; no lane may hold NaN. */
    if (n < KV_PAGE) memset(to, 0, gathered->groups[0].data_bytes);
    for (size_t i = 0, end; i < n; i = end) {
        size_t from_page = indices[i] / KV_PAGE;
        for (end = i + 1; end < n && indices[end] / KV_PAGE == from_page;) end++;
        copy_units(shape->type, shape->layers[0].key_dim, to, i,
                   kvcache_keys(cache, sequence, from_page, from_layer, 0), indices + i, end - i);
    }
}
