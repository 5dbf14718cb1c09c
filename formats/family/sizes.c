#include "formats/family/sizes.h"

#include <ctype.h>
#include <string.h>

/* X(name, value): the names, the most frequent first, and the value of each in a layer of Config c,
 * whose heads are `heads`. */
#define EACH_SIZE(X)                                                                               \
    X(dim, c->dim)                                                                                 \
    X(n_heads, heads.n_heads)                                                                      \
    X(n_kv_heads, heads.n_kv_heads)                                                                \
    X(head_dim, heads.head_dim)                                                                    \
    X(value_dim, heads.value_dim)                                                                  \
    X(ffn_dim, config_ffn_dim(c, layer))                                                           \
    X(expert_ffn_dim, c->experts.ffn_dim)                                                          \
    X(n_experts, c->experts.count)                                                                 \
    X(shared_ffn_dim, c->experts.shared_ffn_dim)                                                   \
    X(vocab_size, c->vocab_size)                                                                   \
    X(state_heads, c->state.n_heads)                                                               \
    X(state_key_heads, c->state.n_key_heads)                                                       \
    X(state_key_dim, c->state.key_dim)                                                             \
    X(state_value_dim, c->state.value_dim)                                                         \
    X(state_kernel, c->state.conv_kernel)                                                          \
    X(state_group, c->state.n_key_heads ? c->state.n_heads / c->state.n_key_heads : 0)             \
    X(state_rank, c->state.dt_rank)                                                                \
    X(latent_dim, config_latent(c, layer).kv_lora_rank)                                            \
    X(latent_q_dim, config_latent(c, layer).q_lora_rank)                                           \
    X(rotary_dim, heads.rotary_dim)                                                                \
    X(unrotated_dim, heads.head_dim > heads.rotary_dim ? heads.head_dim - heads.rotary_dim : 0)    \
    X(index_dim, c->indexer.head_dim)                                                              \
    X(index_heads, c->indexer.n_heads)                                                             \
    X(index_pool, c->indexer.pool)                                                                 \
    X(context, c->context)                                                                         \
    X(position_offset, c->position_offset)                                                         \
    X(n_layers, c->n_layers)                                                                       \
    X(adapter_rank, c->adapter_rank)                                                               \
    X(expert_dim, c->experts.dim ? c->experts.dim : c->dim)                                        \
    X(per_layer_dim, c->per_layer.dim)                                                             \
    X(per_layer_vocab, c->per_layer.vocab)                                                         \
    X(altup_streams, c->altup_streams)                                                             \
    X(laurel_rank, c->altup.laurel_rank)                                                           \
    X(hyper_maps,                                                                                  \
      (2 + (c->hyper.mix_rounds > 0 ? c->hyper_streams : 0)) * (size_t)c->hyper_streams)           \
    X(out_groups, c->compressed.out_groups)                                                        \
    X(out_rank, c->compressed.out_rank)                                                            \
    X(out_group_width, c->compressed.out_groups                                                    \
                           ? heads.head_dim *(size_t)heads.n_heads / c->compressed.out_groups      \
                           : 0)                                                                    \
    X(pool_rate, c->compressed.pool_rate[layer])                                                   \
    X(pool_series, c->indexer.layer[layer] == INDEXER_OWN ? 2 : 1)                                 \
    X(ngram_dim, c->ngram.dim)                                                                     \
    X(router_dim, c->router.dim)                                                                   \
    X(state_mix_kernel, c->state.mix_kernel)                                                       \
    X(relative_dim, c->relative.dim)                                                               \
    X(half_values, heads.value_dim *(size_t)heads.n_kv_heads / 2)                                  \
    X(product_keys, c->product.keys)                                                               \
    X(product_experts, c->product.count)

typedef enum SizeName {
#define ENTRY(name, value) SIZE_##name,
    EACH_SIZE(ENTRY) SIZES
#undef ENTRY
} SizeName;

static const char *const names[SIZES] = {
#define ENTRY(name, value) #name,
    EACH_SIZE(ENTRY)
#undef ENTRY
};

const char *size_name(size_t i) {
    return i < SIZES ? names[i] : NULL;
}

static size_t value_of(SizeName name, const Config *c, uint32_t layer) {
    const HeadShape heads = config_heads(c, layer);
    switch (name) {
#define ENTRY(name, value)                                                                         \
    case SIZE_##name:                                                                              \
        return value;
        EACH_SIZE(ENTRY)
#undef ENTRY
    case SIZES:
        break;
    }
    return 0;
}

static size_t times(size_t a, size_t b) {
    size_t product;
    return __builtin_mul_overflow(a, b, &product) ? SIZE_MAX : product;
}

static size_t plus(size_t a, size_t b) {
    size_t sum;
    return __builtin_add_overflow(a, b, &sum) ? SIZE_MAX : sum;
}

static const char *skip_spaces(const char *p) {
    while (*p == ' ') p++;
    return p;
}

/* Reads a number or a name and the spaces after it; NULL: there is none. */
static const char *read_factor(const char *p, const Config *config, uint32_t layer, size_t *value,
                               bool *is_heads) {
    size_t n = 0;
    *is_heads = false;
    if (isdigit((unsigned char)*p)) {
        for (*value = 0; isdigit((unsigned char)*p); p++)
            *value = plus(times(*value, 10), (size_t)(*p - '0'));
        return skip_spaces(p);
    }
    while (islower((unsigned char)p[n]) || p[n] == '_') n++;
    for (SizeName name = 0; name < SIZES; name++) {
        if (strncmp(names[name], p, n) != 0 || names[name][n] != '\0') continue;
        *value = value_of(name, config, layer);
        *is_heads = name == SIZE_state_heads;
        return skip_spaces(p + n);
    }
    return NULL;
}

bool size_sum(const char *text, const Config *config, uint32_t layer, SizeSum *sum) {
    const char *p = skip_spaces(text);
    size_t term = 1, width = 1; /* of the term that is being read; width: without state_heads */
    bool has_heads = false;
    *sum = (SizeSum){0};
    for (;; p = skip_spaces(p + 1)) {
        size_t factor;
        bool is_heads;
        p = read_factor(p, config, layer, &factor, &is_heads);
        if (!p) return false;
        term = times(term, factor);
        if (!is_heads) width = times(width, factor);
        has_heads = has_heads || is_heads;
        if (*p == '*') continue;
        if (sum->n_terms == SIZE_TERMS) return false;
        if (has_heads && sum->heads_width == 0) {
            sum->heads_term = sum->n_terms;
            sum->heads_width = width;
        }
        sum->terms[sum->n_terms++] = term;
        sum->total = plus(sum->total, term);
        if (*p != '+') return *p == '\0';
        term = width = 1;
        has_heads = false;
    }
}

size_t size_of(const char *text, const Config *config, uint32_t layer) {
    SizeSum sum;
    return size_sum(text, config, layer, &sum) ? sum.total : 0;
}
