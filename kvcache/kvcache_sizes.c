#include "kvcache/kvcache_sizes.h"

#include "kvcache/kvpages.h"

_Static_assert((int)KV_MAX_GROUPS == (int)KV_GROUPS, "a layout has room for all groups");

KvShape kvcache_uniform_shape(uint32_t n_layers, uint32_t n_kv_heads, uint32_t head_dim,
                              KvType type) {
    KvShape shape = {.type = type, .n_layers = n_layers};
    for (uint32_t l = 0; l < n_layers; l++)
        shape.layers[l] =
            (KvLayer){.n_kv_heads = n_kv_heads, .key_dim = head_dim, .value_dim = head_dim};
    return shape;
}

KvLayout kvcache_layout(const KvShape *shape) {
    KvCache cache = {.shape = *shape};
    kvpages_layout(&cache);
    KvLayout layout = {.n_groups = cache.n_groups,
                       .state_bytes = cache.state_floats * sizeof(float)};
    for (size_t g = 0; g < cache.n_groups; g++) {
        layout.data_bytes[g] = cache.groups[g].data_bytes;
        layout.window[g] = cache.groups[g].window;
    }
    return layout;
}

size_t kvcache_first_page(uint32_t window, size_t index) {
    const Group group = {.window = window};
    return kvpages_first_seen(&group, index);
}

size_t kvcache_position_bytes(const KvShape *shape) {
    const KvLayout layout = kvcache_layout(shape);
    size_t bytes = 0;
    for (size_t g = 0; g < layout.n_groups; g++) bytes += layout.data_bytes[g] / KV_PAGE;
    return bytes;
}

size_t kvcache_seen_bytes(const KvShape *shape, size_t n) {
    const KvLayout layout = kvcache_layout(shape);
    size_t bytes = layout.state_bytes;
    for (size_t g = 0; g < layout.n_groups; g++) {
        size_t window = layout.window[g];
        bytes += layout.data_bytes[g] / KV_PAGE * (window > 0 && window < n ? window : n);
    }
    return bytes;
}

size_t kvcache_sequence_bytes(const KvShape *shape, size_t n) {
    KvCache cache = {.shape = *shape};
    kvpages_layout(&cache);
    size_t bytes = n > 0 ? cache.state_floats * sizeof(float) : 0;
    for (size_t g = 0; g < cache.n_groups; g++) {
        size_t last = n > KV_SLACK ? n - KV_SLACK : 0;
        size_t given_back = kvpages_first_seen(&cache.groups[g], last);
        bytes += (kvpages_for(n) - given_back) * kvpages_bytes(&cache.groups[g]);
    }
    return bytes;
}

size_t kvcache_longest(const KvShape *shape, size_t most, double bytes) {
    size_t low = 0, high = most;
    while (low < high) {
        size_t middle = high - (high - low) / 2;
        if ((double)kvcache_sequence_bytes(shape, middle) <= bytes)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

size_t kvcache_bytes_free(const KvCache *cache) {
    return cache->max_bytes - cache->bytes;
}

bool kvcache_has_states(const KvShape *shape) {
    for (uint32_t l = 0; l < shape->n_layers; l++)
        if (shape->layers[l].state_floats > 0) return true;
    return false;
}

bool kvcache_forgets(const KvShape *shape) {
    for (uint32_t l = 0; l < shape->n_layers; l++)
        if (shape->layers[l].n_kv_heads > 0 && shape->layers[l].window > 0) return true;
    return kvcache_has_states(shape);
}
