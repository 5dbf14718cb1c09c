/* Step 3.5: heads and RoPE by layer, gated attention, limited gates. */
#include "families/shared.h"

static const TensorRule gguf_gates_of_heads[] = {
    MATRIX("attention_gate", ".attn_gate.weight", "n_heads", "dim"),
    {0},
};

/* Sets the number of query heads of layer l from the object's num_attention_heads, if it has one.
 */
static Status step_layer_heads(const json_t *object, uint32_t l, Config *config, Error *error) {
    const json_t *value = json_object_get(object, "num_attention_heads");
    double n = value ? json_number_value(value) : config->n_heads;
    if (value && !json_is_number(value))
        return error_set(error, "config.json: layer %u: num_attention_heads is not a number", l);
    if (!(n >= 1 && n <= 1 << 12 && n == floor(n)))
        return error_set(error, "config.json: layer %u: num_attention_heads is %g", l, n);
    config->layer_n_heads[l] = n == config->n_heads ? 0 : (uint32_t)n;
    return STATUS_OK;
}

/* The layers that per_layer_config names, an object with the layers' numbers as keys. */
static Status step_layer_config(const json_t *layers, Config *config, Error *error) {
    const char *number, *key;
    json_t *object, *value;
    if (!json_is_object(layers))
        return error_set(error, "config.json: per_layer_config is not an object");
    json_object_foreach((json_t *)layers, number, object) {
        char *end;
        unsigned long l = strtoul(number, &end, 10);
        if (end == number || *end || l >= config->n_layers || !json_is_object(object))
            return error_set(error, "config.json: per_layer_config has no layer '%.40s'", number);
        json_object_foreach(object, key, value) {
            if (strcmp(key, "num_attention_heads") != 0)
                return error_set(error,
                                 "config.json: per_layer_config of layer %lu has '%.40s', which "
                                 "this program cannot compute",
                                 l, key);
        }
        if (step_layer_heads(object, (uint32_t)l, config, error) != STATUS_OK) return STATUS_FAILED;
    }
    return STATUS_OK;
}

/* Layers with windows have query heads of their own number. */
static Status step_heads(const json_t *json, Config *config, Error *error) {
    const json_t *layers = json_value(json, "per_layer_config");
    const json_t *other = json_value(json, "attention_other_setting");
    if (layers) return step_layer_config(layers, config, error);
    if (other && !json_is_object(other))
        return error_set(error, "config.json: attention_other_setting is not an object");
    json_t *heads =
        json_pack("{s:O*}", "num_attention_heads", json_value(json, "num_sliding_attention_heads"));
    if (!heads) return error_set(error, "config.json: no memory");
    const json_t *source = json_object_size(heads) ? heads : other;
    Status status = STATUS_OK;
    for (uint32_t l = 0; source && status == STATUS_OK && l < config->n_layers; l++)
        if (config->rope_table[l] == 1) status = step_layer_heads(source, l, config, error);
    json_decref(heads);
    return status;
}

static Status step_finish(const json_t *json, Config *config, Error *error) {
    const json_t *types = json_value(json, "layer_types"),
                 *gating = json_object_get(json, "gating");
    const char *gates = json_string_value(gating);
    double scalar = json_number(json, "query_pre_attn_scalar", config->head_dim);
    if (gating && !json_is_true(gating) && !(gates && strcmp(gates, "per-head") == 0))
        return error_set(error, "config.json: gating is not \"per-head\", which this program "
                                "cannot compute");
    if (!(scalar > 0 && isfinite(scalar)))
        return error_set(error, "config.json: query_pre_attn_scalar is %g", scalar);
    config->attention_scale = (float)(1.0 / sqrt(scalar));
    if (types && family_windows(json, types, config, 0, 0, 0, error) != STATUS_OK)
        return STATUS_FAILED;
    family_local_tables(types, config);
    return step_heads(json, config, error);
}

/* Adds a tensor for each layer that the list `key` gives a limit of the gate: of the routed experts
 * if of_experts, else of the shared expert, or of the feed-forward in a layer without experts. */
static Status step_limits(const RuleContext *context, const json_t *json, const char *key,
                          bool of_experts, Error *error) {
    const Config *config = &context->source->config;
    const json_t *list = json_value(json, key);
    for (uint32_t l = 0; list && json_array_size(list) > 0 && l < config->n_layers; l++) {
        const json_t *value = json_array_get(list, l);
        double limit = json_number_value(value);
        bool fits = isfinite((float)limit) && (limit == 0 || (float)limit > 0);
        if ((!json_is_number(value) && !json_is_null(value)) || !fits)
            return error_set(error, "config.json: %s has no limit for layer %u", key, l);
        if (limit > 0 && gate_limit_add(context->source, l, of_experts, limit, error) != STATUS_OK)
            return STATUS_FAILED;
    }
    if (list && !json_is_array(list)) return error_set(error, "config.json: %s is not a list", key);
    return STATUS_OK;
}

static Status step_more(const RuleContext *context, const json_t *json, Error *error) {
    if (step_limits(context, json, "swiglu_limits", true, error) != STATUS_OK) return STATUS_FAILED;
    return step_limits(context, json, "swiglu_limits_shared", false, error);
}

/* Layers without a window rotate half of what the others do. */
static Status gguf_step_finish(const GgufModel *m, Config *c) {
    (void)m;
    c->rope_local_rotary_dim = c->rotary_dim;
    c->rotary_dim /= 2;
    c->router.normalize = true;
    return STATUS_OK;
}

static Status gguf_step_limits(GgufModel *m, const char *key, bool of_experts) {
    const GgufValue *found = gguf_model_find(m, key, GGUF_AS_FLOAT);
    for (uint32_t l = 0; found && l < m->source->config.n_layers; l++) {
        double limit = 0.0;
        if (!gguf_element(found, found->is_array ? l : 0, &limit) ||
            !(limit >= 0.0 && isfinite((float)limit)))
            return error_set(m->error, "%s: %s.%s gives layer %u no limit", m->source->path,
                             m->architecture, key, l);
        if (limit > 0.0 && gate_limit_add(m->source, l, of_experts, limit, m->error) != STATUS_OK)
            return STATUS_FAILED;
    }
    return STATUS_OK;
}

static Status gguf_step_more(GgufModel *m) {
    const RuleContext context = {.source = m->source, .table = &m->table, .layers = GGUF_LAYERS};
    if (rules_apply(&context, gguf_gates_of_heads, m->error) != STATUS_OK ||
        gguf_step_limits(m, "swiglu_clamp_exp", true) != STATUS_OK)
        return STATUS_FAILED;
    return gguf_step_limits(m, "swiglu_clamp_shexp", false);
}

const FamilyHook families_step3p5[] = {
    {"step", .finish = step_finish, .more = step_more, .gguf_finish = gguf_step_finish,
     .gguf_more = gguf_step_more},
    {0},
};
