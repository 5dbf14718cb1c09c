/* Laguna: gated attention, experts by sigmoid scores, heads by layer. */
#include "families/shared.h"

static const TensorRule gates_of_heads[] = {
    MATRIX("attention_gate", ".self_attn.g_proj.weight", "n_heads", "dim"),
    {0},
};

static const TensorRule gates_of_elements[] = {
    MATRIX("attention_gate", ".self_attn.g_proj.weight", "n_heads * value_dim", "dim"),
    {0},
};

static const TensorRule gguf_gates_of_heads[] = {
    MATRIX("attention_gate", ".attn_gate.weight", "n_heads", "dim"),
    {0},
};

static const TensorRule gguf_gates_of_elements[] = {
    MATRIX("attention_gate", ".attn_gate.weight", "n_heads * value_dim", "dim"),
    {0},
};

/* Sets the number of query heads of each layer from a list; the key may be absent. */
static Status set_layer_heads(const json_t *json, const char *key, Config *config, Error *error) {
    const json_t *list = json_value(json, key);
    if (list && json_array_size(list) != config->n_layers)
        return error_set(error, "config.json: %s is not a list of %u layers", key,
                         config->n_layers);
    for (uint32_t i = 0; list && i < config->n_layers; i++) {
        double n = json_number_value(json_array_get(list, i));
        if (!(n >= 1 && n <= 1 << 12 && n == floor(n)))
            return error_set(error, "config.json: %s holds %g", key, n);
        config->layer_n_heads[i] = n == config->n_heads ? 0 : (uint32_t)n;
    }
    return STATUS_OK;
}

/* Layers with windows have a RoPE of their own. */
static Status laguna_finish(const json_t *json, Config *config, Error *error) {
    const json_t *types = json_value(json, "layer_types");
    if (types && family_windows(json, types, config, 512, 0, 0, error) != STATUS_OK)
        return STATUS_FAILED;
    for (uint32_t i = 0; i < config->n_layers; i++)
        config->rope_table[i] = config->window[i] ? 1 : 0;
    return set_layer_heads(json, "num_attention_heads_per_layer", config, error);
}

static Status laguna_more(const RuleContext *context, const json_t *json, Error *error) {
    const json_t *gating = json_value(json, "gating");
    const char *text = json_string_value(gating);
    bool of_heads = text ? strcmp(text, "per-head") == 0 : !gating || json_is_true(gating);
    return rules_apply(context, of_heads ? gates_of_heads : gates_of_elements, error);
}

static Status gguf_laguna_more(GgufModel *m) {
    const RuleContext context = {.source = m->source, .table = &m->table, .layers = GGUF_LAYERS};
    const RawTensor *gate = raw_table_find(&m->table, "blk.0.attn_gate.weight");
    bool of_heads = gate && gate->dims[0] == config_heads(&m->source->config, 0).n_heads;
    return rules_apply(&context, of_heads ? gguf_gates_of_heads : gguf_gates_of_elements, m->error);
}

const FamilyHook families_laguna[] = {
    {"laguna", .finish = laguna_finish, .more = laguna_more, .gguf_more = gguf_laguna_more},
    {0},
};
