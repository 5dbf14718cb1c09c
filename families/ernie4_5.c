/* ERNIE 4.5: a llama with interleaved RoPE, and its mixtures. */
#include "families/shared.h"

/* Reads the width of the text's experts, and refuses scaled RoPE. moe_intermediate_size is a list
 * of the widths of the text's experts and of the images'. The class cannot scale RoPE. */
static Status vl_finish(const json_t *json, Config *config, Error *error) {
    static const char *const objects[] = {"rope_scaling", "rope_parameters"};
    const json_t *widths = json_value(json, "moe_intermediate_size");
    json_int_t width = widths ? json_integer_value(json_array_get(widths, 0)) : 1536;
    if (widths && json_array_size(widths) != 2)
        return error_set(error, "config.json: moe_intermediate_size is not a list of two widths");
    if (width <= 0 || width > 1 << 20)
        return error_set(error, "config.json: moe_intermediate_size: the first width is no size");
    for (size_t i = 0; i < 2; i++) {
        const json_t *rope = json_value(json, objects[i]);
        const char *type = json_text(rope, "rope_type");
        if (!type) type = json_text(rope, "type");
        if (type && strcmp(type, "default") != 0)
            return error_set(error,
                             "config.json: %s: '%.40s' is not known for a model of type "
                             "'ernie4_5_vl_moe'",
                             objects[i], type);
    }
    config->experts.ffn_dim = (uint32_t)width;
    return family_shared_width(json, "moe_num_shared_experts", 2, config, error);
}

static void leave_out(const RuleContext *c, const char *name) {
    RawTensor *raw = rules_find(c, name);
    if (raw) raw->used = true;
}

/* Refuses a layer whose tensors are not of the kind that mlp_layer_types gives it. Leaves out the
 * router and the experts for images, which follow the experts for text. */
static Status vl_more(const RuleContext *c, const json_t *json, Error *error) {
    static const char *const parts[] = {"gate", "up", "down"};
    const Config *config = &c->source->config;
    const json_t *kinds = json_value(json, "mlp_layer_types");
    if (kinds && json_array_size(kinds) < config->n_layers)
        return error_set(error, "config.json: mlp_layer_types is not a list of %u layers",
                         config->n_layers);
    for (uint32_t l = 0; l < config->n_layers; l++) {
        char name[96];
        const char *kind = json_string_value(json_array_get(kinds, l));
        bool sparse = kinds ? kind && strcmp(kind, "sparse") == 0 : l > 0;
        snprintf(name, sizeof name, "model.layers.%u.mlp.%s.weight", l,
                 sparse ? "gate_proj" : "gate");
        if (rules_find(c, name))
            return error_set(error, "tensor '%s': by mlp_layer_types layer %u is %s", name, l,
                             sparse ? "sparse" : "dense");
        snprintf(name, sizeof name, "model.layers.%u.mlp.gate.weight_1", l);
        leave_out(c, name);
        for (uint32_t i = 0; i < 3 * config->experts.count; i++) {
            snprintf(name, sizeof name, "model.layers.%u.mlp.experts.%u.%s_proj.weight", l,
                     config->experts.count + i / 3, parts[i % 3]);
            leave_out(c, name);
        }
    }
    return STATUS_OK;
}

const FamilyHook families_ernie4_5[] = {
    {"vl", .finish = vl_finish, .more = vl_more},
    {0},
};
