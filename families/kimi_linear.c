/* Kimi Linear: delta attention with decays by key beside latent attention without RoPE. */
#include "families/shared.h"
#include "formats/family/convolutions.h"

static Status kimi_linear_more(const RuleContext *context, const json_t *json, Error *error) {
    (void)json;
    return convolutions_join(context, "model.layers.%u.self_attn.%c_conv1d.weight", error);
}

/* Sets layer_kind from the lists of layers, which count from 1, in linear_attn_config. */
static Status kimi_linear_lists(const json_t *full, const json_t *linear, Config *config,
                                Error *error) {
    const json_t *const lists[] = {full, linear};
    for (uint32_t l = 0; l < config->n_layers; l++) config->layer_kind[l] = LAYER_KINDS;
    for (int i = 0; i < 2; i++) {
        const json_t *item;
        size_t k;
        json_array_foreach((json_t *)lists[i], k, item) {
            json_int_t layer = json_integer_value(item);
            if (layer >= 1 && layer <= config->n_layers)
                config->layer_kind[layer - 1] = i == 0 ? LAYER_LATENT : LAYER_DELTA;
        }
    }
    for (uint32_t l = 0; l < config->n_layers; l++)
        if (config->layer_kind[l] == LAYER_KINDS)
            return error_set(error, "config.json: linear_attn_config says nothing of layer %u",
                             l + 1);
    return STATUS_OK;
}

/* layer_types, or the lists of linear_attn_config; without both every fourth layer attends. */
static Status kimi_linear_kinds(const json_t *json, const json_t *linear, Config *config,
                                Error *error) {
    static const KindName names[] = {
        {"linear_attention", LAYER_DELTA}, {"full_attention", LAYER_LATENT}, {0}};
    const json_t *types = json_value(json, "layer_types");
    const json_t *full = json_value(linear, "full_attn_layers");
    const json_t *states = json_value(linear, "kda_layers");
    if (types) return family_state_read_kinds(types, names, config, error);
    if (full && states) return kimi_linear_lists(full, states, config, error);
    for (uint32_t l = 0; l < config->n_layers; l++)
        config->layer_kind[l] = l > 0 && l % 4 == 0 ? LAYER_LATENT : LAYER_DELTA;
    return STATUS_OK;
}

static Status kimi_linear_finish(const json_t *json, Config *config, Error *error) {
    const json_t *linear = json_value(json, "linear_attn_config");
    const char *key =
        json_value(json, "n_shared_experts") ? "n_shared_experts" : "num_shared_experts";
    if (config->head_dim > 1 << 12 || config->rotary_dim > 1 << 12 || config->value_dim == 0)
        return error_set(error,
                         "config.json: qk_nope_head_dim %u, qk_rope_head_dim %u, v_head_dim %u",
                         config->head_dim, config->rotary_dim, config->value_dim);
    config->head_dim += config->rotary_dim;
    config->n_kv_heads = config->n_heads;
    config->attention_scale = (float)(1.0 / sqrt((double)config->head_dim));
    if (family_shared_width(json, key, 1, config, error) != STATUS_OK) return STATUS_FAILED;
    return kimi_linear_kinds(json, linear, config, error);
}

static Status gguf_kimi_linear_finish(const GgufModel *m, Config *c) {
    if (gguf_latent_finish(m, c) != STATUS_OK) return STATUS_FAILED;
    return gguf_kda_sizes(m, c);
}

const FamilyHook families_kimi_linear[] = {
    {"kimi_linear", .finish = kimi_linear_finish, .more = kimi_linear_more,
     .gguf_finish = gguf_kimi_linear_finish, .gguf_more = gguf_join_kda},
    {0},
};
