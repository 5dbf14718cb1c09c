/* ModernBERT's decoder (Ettin): a norm of the embeddings in place of the first layer's, windows in
 * two of three layers, and a layer before the output head. */
#include "families/shared.h"

/* Sets which layers have a window: those that layer_types names, or all but every
 * global_attn_every_n_layers-th from the first on. local_attention counts both sides, so a causal
 * window is half of it. */
static Status modernbert_finish(const json_t *json, Config *config, Error *error) {
    const json_t *types = json_value(json, "layer_types");
    if (json_is_null(json_object_get(json, "local_attention"))) /* each position sees nothing */
        return error_set(error, "config.json: local_attention is null");
    double local = json_number(json, "local_attention", 128), every = 3;
    if (json_value(json, "global_attn_every_n_layers"))
        every = json_number(json, "global_attn_every_n_layers", 3);
    if (!(every >= 1 && every <= CONFIG_MAX_LAYERS && every == (double)(uint32_t)every))
        return error_set(error, "config.json: global_attn_every_n_layers is %g", every);
    if (types && json_array_size(types) < config->n_layers)
        return error_set(error, "config.json: layer_types names %zu layers of %u",
                         json_array_size(types), config->n_layers);
    for (uint32_t l = 0; l < config->n_layers; l++) {
        const char *type = types ? json_string_value(json_array_get(types, l)) : NULL;
        bool slides =
            types ? type && strcmp(type, "sliding_attention") == 0 : l % (uint32_t)every != 0;
        if (types && !slides && (!type || strcmp(type, "full_attention") != 0))
            return error_set(error, "config.json: layer_types[%u] is '%.40s'", l, type ? type : "");
        if (!slides) continue;
        if (!(local >= 2 && local <= 1 << 28))
            return error_set(error, "config.json: local_attention is %g", local);
        config->window[l] = (uint32_t)local / 2;
        config->rope_table[l] = 1;
    }
    return STATUS_OK;
}

/* All layers but the first have a norm before attention. */
static Status modernbert_more(const RuleContext *context, const json_t *json, Error *error) {
    static const TensorRule norm[] = {NORM("attention_norm", ".attn_norm"), {0}};
    (void)json;
    for (uint32_t l = 1; l < context->source->config.n_layers; l++)
        if (rules_apply_to_layer(context, norm, l, error) != STATUS_OK) return STATUS_FAILED;
    return STATUS_OK;
}

const FamilyHook families_modernbert_decoder[] = {
    {"modernbert", .finish = modernbert_finish, .more = modernbert_more},
    {0},
};
