/* The text half of Llama 3.2 Vision. Its layers of cross attention add nothing without an image, so
 * they are left out, and the layers after them have lower numbers here. */
#include "families/shared.h"

/* Whether layer l of the source is one of cross attention. */
static bool is_cross(const json_t *json, uint32_t l) {
    const json_t *layers = json_value(json, "cross_attention_layers");
    if (!layers) return l % 5 == 3 && l <= 38;
    for (size_t i = 0; i < json_array_size(layers); i++) {
        const json_t *cross = json_array_get(layers, i);
        if (json_is_integer(cross) && json_integer_value(cross) == (json_int_t)l) return true;
    }
    return false;
}

static Status mllama_finish(const json_t *json, Config *config, Error *error) {
    const json_t *layers = json_value(json, "cross_attention_layers");
    if (layers && !json_is_array(layers))
        return error_set(error, "config.json: cross_attention_layers is not a list");
    if (config->n_layers > CONFIG_MAX_LAYERS)
        return error_set(error, "config.json: num_hidden_layers is %u", config->n_layers);
    uint32_t kept = 0;
    for (uint32_t l = 0; l < config->n_layers; l++) kept += !is_cross(json, l);
    if (kept == 0) return error_set(error, "config.json: all layers are of cross attention");
    config->n_layers = kept;
    return STATUS_OK;
}

/* Marks the tensors of a layer of cross attention as known. */
static void leave_out(const RuleContext *context, uint32_t l) {
    char layer[32];
    snprintf(layer, sizeof layer, "layers.%u.", l);
    for (size_t i = 0; i < context->table->n; i++)
        if (strstr(context->table->items[i].name, layer)) context->table->items[i].used = true;
}

/* Adds the tensors of the layers that are not of cross attention, numbered without the others. */
static Status mllama_more(const RuleContext *context, const json_t *json, Error *error) {
    static const TensorRule rules[] = {LLAMA_NORMS, LLAMA_ATTENTION, LLAMA_FFN, {0}};
    RuleContext at = *context;
    char name[32];
    at.layers = name;
    for (uint32_t l = 0, from = 0; l < context->source->config.n_layers; l++, from++) {
        while (is_cross(json, from)) leave_out(context, from++);
        snprintf(name, sizeof name, "model.layers.%u.", from);
        if (rules_apply_to_layer(&at, rules, l, error) != STATUS_OK) return STATUS_FAILED;
    }
    return STATUS_OK;
}

const FamilyHook families_mllama[] = {
    {"mllama", .finish = mllama_finish, .more = mllama_more},
    {0},
};
