/* RecurrentGemma: recurrent blocks (RG-LRU) beside attention with windows. */
#include "base/numbers.h"
#include "families/shared.h"

/* The class computes RoPE without a scaling alone. */
static Status refuse_scaling(const json_t *json, Error *error) {
    static const char *const objects[] = {"rope_parameters", "rope_scaling"};
    static const char *const types[] = {"rope_type", "type"};
    for (size_t i = 0; i < 2; i++)
        for (size_t k = 0; k < 2; k++) {
            const char *type = json_text(json_value(json, objects[i]), types[k]);
            if (type && strcmp(type, "default") != 0)
                return error_set(error, "config.json: RoPE scaling '%.40s' in %s", type,
                                 objects[i]);
        }
    return STATUS_OK;
}

/* The list block_types is repeated over the layers; every block but "recurrent" attends. */
static Status read_kinds(const json_t *json, uint32_t window, Config *config, Error *error) {
    const json_t *types = json_value(json, "block_types");
    size_t n = types ? json_array_size(types) : 3;
    if (n == 0 || config->n_layers / n > 100 ||
        (config->n_layers / n == 100 && config->n_layers % n))
        return error_set(error, "config.json: block_types has %zu blocks for %u layers", n,
                         config->n_layers);
    for (uint32_t l = 0; l < config->n_layers; l++) {
        const char *type = types ? json_string_value(json_array_get(types, l % n)) : NULL;
        bool recurs = types ? type && strcmp(type, "recurrent") == 0 : l % 3 != 2;
        config->layer_kind[l] = recurs ? LAYER_RG_LRU : LAYER_ATTENTION;
        config->window[l] = recurs ? 0 : window;
    }
    return STATUS_OK;
}

/* Reads the widths, the window and the embeddings' scale. intermediate_size counts gate and up
 * together, lru_width all blocks of channels; transformers rounds the embeddings' scale to
 * bfloat16. */
static Status recurrent_gemma_finish(const json_t *json, Config *config, Error *error) {
    uint32_t width = 0, window = 0;
    bool old = json_value(json, "attention_window_size") != NULL;
    const char *key = old ? "attention_window_size" : "sliding_window";
    if (family_refuse_zero(json, "logits_soft_cap", error) != STATUS_OK ||
        refuse_scaling(json, error) != STATUS_OK)
        return STATUS_FAILED;
    if (family_state_read_whole(json, key, 2048, &window, error) != STATUS_OK ||
        family_state_read_whole(json, "lru_width", config->dim, &width, error) != STATUS_OK)
        return STATUS_FAILED;
    if (config->n_heads == 0 || width % config->n_heads != 0)
        return error_set(error, "config.json: lru_width (%u) is not a multiple of %u heads", width,
                         config->n_heads);
    config->state.n_heads = config->n_heads;
    config->state.value_dim = width / config->n_heads;
    config->state.n_key_heads = config->state.key_dim = 1;
    config->ffn_dim /= 2;
    uint32_t bits = float_bits((float)sqrt((double)config->dim));
    config->embedding_scale = float_from_bits((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000);
    return read_kinds(json, window, config, error);
}

/* Adds the decays' factors, -8 softplus of a parameter. */
static Status recurrent_gemma_more(const RuleContext *context, const json_t *json, Error *error) {
    const Config *c = &context->source->config;
    size_t n = (size_t)c->state.n_heads * c->state.value_dim;
    (void)json;
    for (uint32_t l = 0; l < c->n_layers; l++) {
        char from[80], to[48];
        float *values = NULL;
        if (c->layer_kind[l] != LAYER_RG_LRU) continue;
        snprintf(from, sizeof from, "model.layers.%u.temporal_block.rg_lru.recurrent_param", l);
        snprintf(to, sizeof to, "layers.%u.rg_lru.a", l);
        if (rules_read(context, from, 1, n, &values, error) != STATUS_OK) return STATUS_FAILED;
        for (size_t i = 0; i < n; i++) {
            double x = values[i];
            values[i] = (float)(-8.0 * (x > 20.0 ? x : log1p(exp(x))));
        }
        if (source_add_values(context->source, to, 1, n, values, error) != STATUS_OK)
            return STATUS_FAILED;
    }
    return STATUS_OK;
}

const FamilyHook families_recurrent_gemma[] = {
    {"recurrent_gemma", .finish = recurrent_gemma_finish, .more = recurrent_gemma_more},
    {0},
};
