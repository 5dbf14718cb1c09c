#include "families.h"

#include <stdio.h>
#include <string.h>

#include "json.h"

/* ---- Keys ---- */

/* A list of four keys that almost every family calls the same. */
#define COMMON_KEYS                                                                                \
    {"vocab_size", "vocab_size", REQUIRED}, {"hidden_size", "dim", REQUIRED},                      \
        {"intermediate_size", "ffn_dim", REQUIRED}, {"num_hidden_layers", "n_layers", REQUIRED}, { \
        "num_attention_heads", "n_heads", REQUIRED                                                 \
    }

static const ConfigRule llama_config[] = {
    COMMON_KEYS,
    {"num_key_value_heads", "n_kv_heads", 0},
    {"head_dim", "head_dim", 0},
    {"max_position_embeddings", "context", 2048},
    {"rms_norm_eps", "norm_eps", 1e-6},
    {"hidden_act", "activation", ACTIVATION_SILU},
    {0},
};

static const ConfigRule mistral_config[] = {
    COMMON_KEYS,
    {"num_key_value_heads", "n_kv_heads", 8},
    {"head_dim", "head_dim", 0},
    {"max_position_embeddings", "context", 131072},
    {"rms_norm_eps", "norm_eps", 1e-6},
    {"hidden_act", "activation", ACTIVATION_SILU},
    {0},
};

static const ConfigRule guide_config[] = {
    COMMON_KEYS,
    {"num_key_value_heads", "n_kv_heads", 0},
    {"max_position_embeddings", "context", REQUIRED},
    {"layer_norm_eps", "norm_eps", 1e-5},
    {0},
};

/* ---- Tensors ---- */

static const TensorRule llama_tensors[] = {
    {"token_embedding", "model.embed_tokens.weight", N_VOCAB, N_DIM, 0, {0}, {0}},
    {"attention_norm", "model.layers.%u.input_layernorm.weight", N_ONE, N_DIM, 0, {0}, {0}},
    {"wq", "model.layers.%u.self_attn.q_proj.weight", N_Q, N_DIM, 0, {0}, {0}},
    {"wk", "model.layers.%u.self_attn.k_proj.weight", N_KV, N_DIM, 0, {0}, {0}},
    {"wv", "model.layers.%u.self_attn.v_proj.weight", N_KV, N_DIM, 0, {0}, {0}},
    {"wo", "model.layers.%u.self_attn.o_proj.weight", N_DIM, N_Q, 0, {0}, {0}},
    {"wq.bias", "model.layers.%u.self_attn.q_proj.bias", N_ONE, N_Q, RULE_OPTIONAL, {0}, {0}},
    {"wk.bias", "model.layers.%u.self_attn.k_proj.bias", N_ONE, N_KV, RULE_OPTIONAL, {0}, {0}},
    {"wv.bias", "model.layers.%u.self_attn.v_proj.bias", N_ONE, N_KV, RULE_OPTIONAL, {0}, {0}},
    {"wo.bias", "model.layers.%u.self_attn.o_proj.bias", N_ONE, N_DIM, RULE_OPTIONAL, {0}, {0}},
    {"ffn_norm", "model.layers.%u.post_attention_layernorm.weight", N_ONE, N_DIM, 0, {0}, {0}},
    {"w_gate", "model.layers.%u.mlp.gate_proj.weight", N_FFN, N_DIM, 0, {0}, {0}},
    {"w_up", "model.layers.%u.mlp.up_proj.weight", N_FFN, N_DIM, 0, {0}, {0}},
    {"w_down", "model.layers.%u.mlp.down_proj.weight", N_DIM, N_FFN, 0, {0}, {0}},
    {"w_gate.bias", "model.layers.%u.mlp.gate_proj.bias", N_ONE, N_FFN, RULE_OPTIONAL, {0}, {0}},
    {"w_up.bias", "model.layers.%u.mlp.up_proj.bias", N_ONE, N_FFN, RULE_OPTIONAL, {0}, {0}},
    {"w_down.bias", "model.layers.%u.mlp.down_proj.bias", N_ONE, N_DIM, RULE_OPTIONAL, {0}, {0}},
    {"final_norm", "model.norm.weight", N_ONE, N_DIM, 0, {0}, {0}},
    {"output", "lm_head.weight", N_VOCAB, N_DIM, RULE_TIED, {0}, {0}},
    {0},
};

/* docs/format.md names these; a block's norm stands after what it normalizes. */
static const TensorRule guide_tensors[] = {
    {"token_embedding", "token_embedding.weight", N_VOCAB, N_DIM, 0, {0}, {0}},
    {"wq", "layers.%u.attention.wq.weight", N_Q, N_DIM, 0, {0}, {0}},
    {"wq.bias", "layers.%u.attention.wq.bias", N_ONE, N_Q, 0, {0}, {0}},
    {"wk", "layers.%u.attention.wk.weight", N_KV, N_DIM, 0, {0}, {0}},
    {"wk.bias", "layers.%u.attention.wk.bias", N_ONE, N_KV, 0, {0}, {0}},
    {"wv", "layers.%u.attention.wv.weight", N_KV, N_DIM, 0, {0}, {0}},
    {"wv.bias", "layers.%u.attention.wv.bias", N_ONE, N_KV, 0, {0}, {0}},
    {"wo", "layers.%u.attention.wo.weight", N_DIM, N_Q, 0, {0}, {0}},
    {"wo.bias", "layers.%u.attention.wo.bias", N_ONE, N_DIM, 0, {0}, {0}},
    {"attention_norm", "layers.%u.norm1.weight", N_ONE, N_DIM, 0, {0}, {0}},
    {"attention_norm.bias", "layers.%u.norm1.bias", N_ONE, N_DIM, 0, {0}, {0}},
    {"w_up", "layers.%u.ffn.w1.weight", N_FFN, N_DIM, 0, {0}, {0}},
    {"w_up.bias", "layers.%u.ffn.w1.bias", N_ONE, N_FFN, 0, {0}, {0}},
    {"w_down", "layers.%u.ffn.w2.weight", N_DIM, N_FFN, 0, {0}, {0}},
    {"w_down.bias", "layers.%u.ffn.w2.bias", N_ONE, N_DIM, 0, {0}, {0}},
    {"ffn_norm", "layers.%u.norm2.weight", N_ONE, N_DIM, 0, {0}, {0}},
    {"ffn_norm.bias", "layers.%u.norm2.bias", N_ONE, N_DIM, 0, {0}, {0}},
    {"output", "output.weight", N_VOCAB, N_DIM, RULE_TIED, {0}, {0}},
    {"output.bias", "output.bias", N_ONE, N_VOCAB, 0, {0}, {0}},
    {0},
};

/* ---- What no key tells, and what keys tell in words of their own ---- */

static Status mistral_finish(const json_t *json, Config *config, Error *error) {
    const json_t *window = json_object_get(json, "sliding_window");
    /* Absent means 4096, null means none. */
    double value = !window ? 4096.0 : json_is_number(window) ? json_number_value(window) : 0.0;
    if (value < 0 || value > (1 << 28))
        return error_set(error, "config.json: sliding_window is %g", value);
    for (uint32_t i = 0; i < config->n_layers; i++) config->window[i] = (uint32_t)value;
    return STATUS_OK;
}

static void guide_preset(Config *config) {
    config->norm = NORM_LAYER;
    config->norm_place = NORM_AFTER;
    config->final_norm = false;
    config->position = POSITION_SINUSOIDAL;
    config->sinusoid_layout = SINUSOID_INTERLEAVED;
    config->activation = ACTIVATION_RELU;
    config->gated = false;
}

static Status guide_finish(const json_t *json, Config *config, Error *error) {
    (void)json, (void)error;
    config->embedding_scale = (float)sqrt((double)config->dim);
    return STATUS_OK;
}

static const Family families[] = {
    {"llama", llama_config, llama_tensors, NULL, NULL, false, 1, 2},
    {"mistral", mistral_config, llama_tensors, NULL, mistral_finish, false, 1, 2},
    {"guide_transformer", guide_config, guide_tensors, guide_preset, guide_finish, false, -1, -1},
};

/* ---- Reading them ---- */

const Family *family_find(const char *model_type) {
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        if (strcmp(families[i].model_type, model_type) == 0) return &families[i];
    return NULL;
}

void family_names(char *text, size_t size) {
    size_t length = 0;
    if (size) text[0] = '\0';
    for (size_t i = 0; i < sizeof families / sizeof *families && length < size; i++)
        length += (size_t)snprintf(text + length, size - length, "%s%s", i ? ", " : "",
                                   families[i].model_type);
}

/* The value of the first of the keys that is there. */
static const json_t *first_value(const json_t *json, const char *keys) {
    while (*keys) {
        char key[64];
        size_t n = strcspn(keys, "|");
        snprintf(key, sizeof key, "%.*s", (int)n, keys);
        const json_t *value = json_value(json, key);
        if (value) return value;
        keys += n + (keys[n] == '|');
    }
    return NULL;
}

static Status set_activation(Config *config, const json_t *value, Error *error) {
    static const struct {
        const char *name;
        Activation activation;
    } names[] = {
        {"silu", ACTIVATION_SILU},
        {"swish", ACTIVATION_SILU},
        {"gelu", ACTIVATION_GELU},
        {"gelu_new", ACTIVATION_GELU_TANH},
        {"gelu_fast", ACTIVATION_GELU_TANH},
        {"gelu_pytorch_tanh", ACTIVATION_GELU_TANH},
        {"gelu_python", ACTIVATION_GELU},
        {"relu", ACTIVATION_RELU},
        {"quick_gelu", ACTIVATION_GELU_QUICK},
    };
    const char *name = json_string_value(value);
    for (size_t i = 0; name && i < sizeof names / sizeof *names; i++) {
        if (strcmp(names[i].name, name) != 0) continue;
        config->activation = names[i].activation;
        return STATUS_OK;
    }
    return error_set(error, "config.json: activation '%.40s' is not known to this program",
                     name ? name : "(no text)");
}

static Status set_field(Config *config, const ConfigRule *rule, const ConfigField *field,
                        const json_t *value, Error *error) {
    void *out = (char *)config + field->offset;
    double number = value ? json_number_value(value) : rule->absent;
    if (value && json_is_boolean(value)) number = json_is_true(value);
    if (value && !json_is_number(value) && !json_is_boolean(value))
        return error_set(error, "config.json: %s is not a number", rule->keys);
    switch (field->kind) {
    case FIELD_UINT:
        if (number < 0 || number > UINT32_MAX || number != floor(number))
            return error_set(error, "config.json: %s is %g", rule->keys, number);
        *(uint32_t *)out = (uint32_t)number;
        return STATUS_OK;
    case FIELD_FLOAT:
        *(float *)out = (float)number;
        return STATUS_OK;
    case FIELD_BOOL:
        *(bool *)out = number != 0.0;
        return STATUS_OK;
    default:
        return error_set(error, "config.json: %s cannot be read", rule->keys);
    }
}

static Status apply_rule(const ConfigRule *rule, const json_t *json, Config *config, Error *error) {
    const json_t *value = first_value(json, rule->keys);
    if (!value && isnan(rule->absent))
        return error_set(error, "config.json: %s is missing", rule->keys);
    if (strcmp(rule->field, "activation") == 0) {
        if (value) return set_activation(config, value, error);
        config->activation = (Activation)rule->absent;
        return STATUS_OK;
    }
    const ConfigField *field;
    for (size_t i = 0; (field = config_field(i)); i++)
        if (strcmp(field->name, rule->field) == 0)
            return set_field(config, rule, field, value, error);
    return error_set(error, "no field '%s'", rule->field);
}

Status family_configure(const Family *family, const json_t *json, Config *config, Error *error) {
    if (family->preset) family->preset(config);
    for (const ConfigRule *rule = family->config; rule->keys; rule++)
        if (apply_rule(rule, json, config, error) != STATUS_OK) return STATUS_FAILED;
    snprintf(config->family, sizeof config->family, "%s", family->model_type);
    if (config->n_layers > CONFIG_MAX_LAYERS)
        return error_set(error, "config.json: %u layers, more than %d", config->n_layers,
                         CONFIG_MAX_LAYERS);
    if (config->n_heads == 0) return error_set(error, "config.json: no attention heads");
    if (config->n_kv_heads == 0) config->n_kv_heads = config->n_heads;
    if (config->head_dim == 0) config->head_dim = config->dim / config->n_heads;
    if (config->head_dim == 0) return error_set(error, "config.json: heads without a width");
    if (config->attention_scale == 0.0f)
        config->attention_scale = (float)(1.0 / sqrt((double)config->head_dim));
    return family->finish ? family->finish(json, config, error) : STATUS_OK;
}
