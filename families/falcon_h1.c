/* Falcon H1: attention and Mamba 2 side by side, with multipliers. */
#include "families/shared.h"

/* Reads a list of n numbers; ones where it is absent. */
static Status read_multipliers(const json_t *json, const char *key, size_t n, double *out,
                               Error *error) {
    const json_t *list = json_value(json, key);
    if (list && json_array_size(list) != n)
        return error_set(error, "config.json: %s is not a list of %zu numbers", key, n);
    for (size_t i = 0; i < n; i++) {
        const json_t *item = json_array_get(list, i);
        out[i] = list ? json_number_value(item) : 1.0;
        if ((list && !json_is_number(item)) || !(fabs(out[i]) < 1e6))
            return error_set(error, "config.json: %s is not a list of %zu numbers", key, n);
    }
    return STATUS_OK;
}

/* The multipliers of the gate and of the output of feed-forwards. Neither may be 0. */
static Status read_ffn_multipliers(const json_t *json, double out[2], Error *error) {
    if (read_multipliers(json, "mlp_multipliers", 2, out, error) != STATUS_OK) return STATUS_FAILED;
    if (fabs(out[0]) > 1e-6 && fabs(out[1]) > 1e-6) return STATUS_OK;
    return error_set(error, "config.json: mlp_multipliers are %g and %g", out[0], out[1]);
}

/* Reads the Mamba part's sizes and all multipliers. The norm before a feed-forward takes the
 * gate's multiplier, which `up` then has as well; what the layers add to the residual stream is
 * multiplied by the rest of the output's. */
static Status falcon_h1_finish(const json_t *json, Config *config, Error *error) {
    const json_t *inner = json_object_get(json, "mamba_d_ssm");
    const json_t *width = json_value(json, "mamba_d_head");
    uint32_t expand = 1, values = 1024;
    double ffn[2];
    Status status = family_state_no_step_limit(json, error);
    if (status == STATUS_OK) status = read_ffn_multipliers(json, ffn, error);
    if (status == STATUS_OK)
        status = family_state_read_whole(json, "mamba_expand", 2, &expand, error);
    if (status == STATUS_OK && json_is_null(inner)) {
        if ((uint64_t)expand * config->dim > 1 << 24)
            return error_set(error, "config.json: mamba_expand is %u", expand);
        values = expand * config->dim;
    } else if (status == STATUS_OK) {
        status = family_state_read_whole(json, "mamba_d_ssm", values, &values, error);
    }
    if (status != STATUS_OK) return STATUS_FAILED;
    if (config->state.n_heads == 0 || values % config->state.n_heads != 0 ||
        (json_is_number(width) &&
         json_number_value(width) != (double)values / config->state.n_heads))
        return error_set(error,
                         "config.json: mamba_d_ssm %u are not mamba_n_heads %u of mamba_d_head",
                         values, config->state.n_heads);
    config->state.value_dim = values / config->state.n_heads;
    config->residual_scale = (float)(ffn[1] / ffn[0]);
    return STATUS_OK;
}

/* Adds the layer's vector TO: FROM times `factor`. */
static Status add_multiplied(const RuleContext *context, uint32_t layer, const char *from,
                             const char *to, size_t n, double factor, Error *error) {
    char name[128];
    float *values;
    snprintf(name, sizeof name, FROM_LAYER "%s", layer, from);
    if (rules_read(context, name, 1, n, &values, error) != STATUS_OK) return STATUS_FAILED;
    for (size_t i = 0; i < n; i++) values[i] *= (float)factor;
    snprintf(name, sizeof name, "layers.%u.%s", layer, to);
    return source_add_values(context->source, name, 1, n, values, error);
}

/* Adds the layer's vector TO. */
static Status add_vector(const RuleContext *context, uint32_t layer, const char *to,
                         const double *from, size_t n, Error *error) {
    char name[64];
    float *values = malloc(n * sizeof *values);
    for (size_t i = 0; values && i < n; i++) values[i] = (float)from[i];
    snprintf(name, sizeof name, "layers.%u.%s", layer, to);
    return source_add_values(context->source, name, 1, n, values, error);
}

static Status add_ffn_vectors(const RuleContext *context, const json_t *json, uint32_t layer,
                              double factor, Error *error) {
    const Config *c = &context->source->config;
    Status status = add_multiplied(context, layer, "pre_ff_layernorm.weight", "ffn_norm", c->dim,
                                   factor, error);
    if (!json_flag(json, "mlp_bias", false)) return status;
    if (status == STATUS_OK)
        status = add_multiplied(context, layer, "feed_forward.gate_proj.bias", "w_gate.bias",
                                c->ffn_dim, factor, error);
    if (status == STATUS_OK)
        status = add_multiplied(context, layer, "feed_forward.up_proj.bias", "w_up.bias",
                                c->ffn_dim, factor, error);
    if (status == STATUS_OK)
        status = add_multiplied(context, layer, "feed_forward.down_proj.bias", "w_down.bias",
                                c->dim, factor, error);
    return status;
}

/* Adds the vectors of Falcon-H1's multipliers (muP): of the feed-forward, Mamba's parts, attention
 * and the outputs. */
static Status falcon_h1_more(const RuleContext *context, const json_t *json, Error *error) {
    const Config *c = &context->source->config;
    double ffn[2] = {1, 1}, attention[2] = {1, 1}, outputs[2] = {1, 1}, mamba[6];
    bool has_norm = rules_find(context, "model.layers.0.mamba.norm.weight");
    if (has_norm != json_flag(json, "mamba_rms_norm", false))
        return error_set(error, "%s: mamba_rms_norm is %s, but the layers have %s",
                         context->source->path, has_norm ? "false" : "true",
                         has_norm ? "mamba.norm.weight" : "no mamba.norm.weight");
    Status status = family_state_no_step_limit(json, error);
    if (status == STATUS_OK) status = read_ffn_multipliers(json, ffn, error);
    if (status == STATUS_OK)
        status = read_multipliers(json, "ssm_multipliers", 5, mamba + 1, error);
    const struct {
        const char *key;
        double *out;
    } numbers[] = {{"ssm_in_multiplier", &mamba[0]},
                   {"attention_in_multiplier", &attention[0]},
                   {"key_multiplier", &attention[1]},
                   {"attention_out_multiplier", &outputs[0]},
                   {"ssm_out_multiplier", &outputs[1]}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers && status == STATUS_OK; i++) {
        *numbers[i].out = json_number(json, numbers[i].key, 1);
        if (!(fabs(*numbers[i].out) < 1e6))
            status = error_set(error, "config.json: %s is %g", numbers[i].key, *numbers[i].out);
    }
    for (size_t i = 0; i < 2; i++) outputs[i] *= ffn[0] / ffn[1]; /* residual_scale undoes this */
    for (uint32_t l = 0; l < c->n_layers && status == STATUS_OK; l++) {
        status = add_ffn_vectors(context, json, l, ffn[0], error);
        if (status == STATUS_OK) status = add_vector(context, l, "mamba.scales", mamba, 6, error);
        if (status == STATUS_OK)
            status = add_vector(context, l, "attention.scales", attention, 2, error);
        if (status == STATUS_OK) status = add_vector(context, l, "scales", outputs, 2, error);
    }
    return status;
}

/* llama.cpp gates before the norm, whatever config.json said, as the released models do. */
const FamilyHook families_falcon_h1[] = {
    {"falcon_h1", .finish = falcon_h1_finish, .more = falcon_h1_more,
     .gguf_finish = gguf_read_state},
    {0},
};
