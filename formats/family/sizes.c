#include "formats/family/sizes.h"

#include <ctype.h>
#include <string.h>

/* Names, the most frequent first. */
typedef enum SizeName {
    SIZE_DIM,
    SIZE_N_HEADS,
    SIZE_N_KV_HEADS,
    SIZE_HEAD_DIM,
    SIZE_VALUE_DIM,
    SIZE_FFN_DIM,
    SIZE_EXPERT_FFN_DIM,
    SIZE_N_EXPERTS,
    SIZE_SHARED_FFN_DIM,
    SIZE_VOCAB_SIZE,
    SIZE_STATE_HEADS,
    SIZE_STATE_KEY_HEADS,
    SIZE_STATE_KEY_DIM,
    SIZE_STATE_VALUE_DIM,
    SIZE_STATE_KERNEL,
    SIZE_STATE_GROUP,
    SIZE_STATE_RANK,
    SIZE_LATENT_DIM,
    SIZE_LATENT_Q_DIM,
    SIZE_ROTARY_DIM,
    SIZE_UNROTATED_DIM,
    SIZE_INDEX_DIM,
    SIZE_INDEX_HEADS,
    SIZE_INDEX_POOL,
    SIZE_CONTEXT,
    SIZE_POSITION_OFFSET,
    SIZE_N_LAYERS,
    SIZE_ADAPTER_RANK,
    SIZE_EXPERT_DIM,
    SIZE_PER_LAYER_DIM,
    SIZE_PER_LAYER_VOCAB,
    SIZE_ALTUP_STREAMS,
    SIZE_LAUREL_RANK,
    SIZE_HYPER_MAPS,
    SIZE_OUT_GROUPS,
    SIZE_OUT_RANK,
    SIZE_OUT_GROUP_WIDTH,
    SIZE_POOL_RATE,
    SIZE_POOL_SERIES,
    SIZE_NGRAM_DIM,
    SIZE_ROUTER_DIM,
    SIZE_STATE_MIX_KERNEL,
    SIZE_RELATIVE_DIM,
    SIZE_HALF_VALUES,
    SIZE_PRODUCT_KEYS,
    SIZE_PRODUCT_EXPERTS,
    SIZES
} SizeName;

static const char *const names[SIZES] = {
    [SIZE_DIM] = "dim",
    [SIZE_N_HEADS] = "n_heads",
    [SIZE_N_KV_HEADS] = "n_kv_heads",
    [SIZE_HEAD_DIM] = "head_dim",
    [SIZE_VALUE_DIM] = "value_dim",
    [SIZE_FFN_DIM] = "ffn_dim",
    [SIZE_EXPERT_FFN_DIM] = "expert_ffn_dim",
    [SIZE_N_EXPERTS] = "n_experts",
    [SIZE_SHARED_FFN_DIM] = "shared_ffn_dim",
    [SIZE_VOCAB_SIZE] = "vocab_size",
    [SIZE_STATE_HEADS] = "state_heads",
    [SIZE_STATE_KEY_HEADS] = "state_key_heads",
    [SIZE_STATE_KEY_DIM] = "state_key_dim",
    [SIZE_STATE_VALUE_DIM] = "state_value_dim",
    [SIZE_STATE_KERNEL] = "state_kernel",
    [SIZE_STATE_GROUP] = "state_group",
    [SIZE_STATE_RANK] = "state_rank",
    [SIZE_LATENT_DIM] = "latent_dim",
    [SIZE_LATENT_Q_DIM] = "latent_q_dim",
    [SIZE_ROTARY_DIM] = "rotary_dim",
    [SIZE_UNROTATED_DIM] = "unrotated_dim",
    [SIZE_INDEX_DIM] = "index_dim",
    [SIZE_INDEX_HEADS] = "index_heads",
    [SIZE_INDEX_POOL] = "index_pool",
    [SIZE_CONTEXT] = "context",
    [SIZE_POSITION_OFFSET] = "position_offset",
    [SIZE_N_LAYERS] = "n_layers",
    [SIZE_ADAPTER_RANK] = "adapter_rank",
    [SIZE_EXPERT_DIM] = "expert_dim",
    [SIZE_PER_LAYER_DIM] = "per_layer_dim",
    [SIZE_PER_LAYER_VOCAB] = "per_layer_vocab",
    [SIZE_ALTUP_STREAMS] = "altup_streams",
    [SIZE_LAUREL_RANK] = "laurel_rank",
    [SIZE_HYPER_MAPS] = "hyper_maps",
    [SIZE_OUT_GROUPS] = "out_groups",
    [SIZE_OUT_RANK] = "out_rank",
    [SIZE_OUT_GROUP_WIDTH] = "out_group_width",
    [SIZE_POOL_RATE] = "pool_rate",
    [SIZE_POOL_SERIES] = "pool_series",
    [SIZE_NGRAM_DIM] = "ngram_dim",
    [SIZE_ROUTER_DIM] = "router_dim",
    [SIZE_STATE_MIX_KERNEL] = "state_mix_kernel",
    [SIZE_RELATIVE_DIM] = "relative_dim",
    [SIZE_HALF_VALUES] = "half_values",
    [SIZE_PRODUCT_KEYS] = "product_keys",
    [SIZE_PRODUCT_EXPERTS] = "product_experts",
};

const char *size_name(size_t i) {
    return i < SIZES ? names[i] : NULL;
}

/* A name's value in a layer: mostly a field of Config. */
static size_t value_of(SizeName name, const Config *c, uint32_t layer) {
    const HeadShape heads = config_heads(c, layer);
    switch (name) {
    case SIZE_DIM:
        return c->dim;
    case SIZE_N_HEADS:
        return heads.n_heads;
    case SIZE_N_KV_HEADS:
        return heads.n_kv_heads;
    case SIZE_HEAD_DIM:
        return heads.head_dim;
    case SIZE_VALUE_DIM:
        return heads.value_dim;
    case SIZE_FFN_DIM:
        return config_ffn_dim(c, layer);
    case SIZE_EXPERT_FFN_DIM:
        return c->experts.ffn_dim;
    case SIZE_N_EXPERTS:
        return c->experts.count;
    case SIZE_SHARED_FFN_DIM:
        return c->experts.shared_ffn_dim;
    case SIZE_VOCAB_SIZE:
        return c->vocab_size;
    case SIZE_STATE_HEADS:
        return c->state.n_heads;
    case SIZE_STATE_KEY_HEADS:
        return c->state.n_key_heads;
    case SIZE_STATE_KEY_DIM:
        return c->state.key_dim;
    case SIZE_STATE_VALUE_DIM:
        return c->state.value_dim;
    case SIZE_STATE_KERNEL:
        return c->state.conv_kernel;
    case SIZE_STATE_GROUP: /* heads that share a key head */
        return c->state.n_key_heads ? c->state.n_heads / c->state.n_key_heads : 0;
    case SIZE_STATE_RANK:
        return c->state.dt_rank;
    case SIZE_LATENT_DIM:
        return config_latent(c, layer).kv_lora_rank;
    case SIZE_LATENT_Q_DIM:
        return config_latent(c, layer).q_lora_rank;
    case SIZE_ROTARY_DIM:
        return heads.rotary_dim;
    case SIZE_UNROTATED_DIM:
        return heads.head_dim > heads.rotary_dim ? heads.head_dim - heads.rotary_dim : 0;
    case SIZE_INDEX_DIM:
        return c->indexer.head_dim;
    case SIZE_INDEX_HEADS:
        return c->indexer.n_heads;
    case SIZE_INDEX_POOL:
        return c->indexer.pool;
    case SIZE_CONTEXT:
        return c->context;
    case SIZE_POSITION_OFFSET:
        return c->position_offset;
    case SIZE_N_LAYERS:
        return c->n_layers;
    case SIZE_ADAPTER_RANK:
        return c->adapter_rank;
    case SIZE_EXPERT_DIM:
        return c->experts.dim ? c->experts.dim : c->dim;
    case SIZE_PER_LAYER_DIM:
        return c->per_layer.dim;
    case SIZE_PER_LAYER_VOCAB:
        return c->per_layer.vocab;
    case SIZE_ALTUP_STREAMS:
        return c->altup_streams;
    case SIZE_LAUREL_RANK:
        return c->altup.laurel_rank;
    case SIZE_HYPER_MAPS:
        return (size_t)c->hyper_streams * (2 + (c->hyper.mix_rounds > 0 ? c->hyper_streams : 0));
    case SIZE_OUT_GROUPS:
        return c->compressed.out_groups;
    case SIZE_OUT_RANK:
        return c->compressed.out_rank;
    case SIZE_OUT_GROUP_WIDTH:
        return c->compressed.out_groups
                   ? (size_t)heads.n_heads * heads.head_dim / c->compressed.out_groups
                   : 0;
    case SIZE_POOL_RATE:
        return c->compressed.pool_rate[layer];
    case SIZE_POOL_SERIES: /* pools overlap where an indexer chooses them */
        return c->indexer.layer[layer] == INDEXER_OWN ? 2 : 1;
    case SIZE_NGRAM_DIM:
        return c->ngram.dim;
    case SIZE_ROUTER_DIM:
        return c->router.dim;
    case SIZE_STATE_MIX_KERNEL:
        return c->state.mix_kernel;
    case SIZE_RELATIVE_DIM:
        return c->relative.dim;
    case SIZE_HALF_VALUES:
        return (size_t)heads.n_kv_heads * heads.value_dim / 2;
    case SIZE_PRODUCT_KEYS:
        return c->product.keys;
    case SIZE_PRODUCT_EXPERTS:
        return c->product.count;
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
        *is_heads = name == SIZE_STATE_HEADS;
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
