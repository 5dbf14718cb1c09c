/* The text half of MiniMax M3: attention to blocks of positions. */
#include "families/shared.h"

/* Whether layer i attends to chosen blocks: by layer_types, else by a list of the first files. */
static Status attends_to_blocks(const json_t *types, const json_t *freq, uint32_t i, bool *blocks,
                                Error *error) {
    const json_t *number = json_array_get(freq, i);
    const char *type = json_string_value(json_array_get(types, i));
    *blocks = types ? type && strcmp(type, "minimax_m3_sparse") == 0
                    : json_is_true(number) || json_number_value(number) != 0.0;
    if (types && !*blocks && (!type || strcmp(type, "full_attention") != 0))
        return error_set(error, "config.json: layer type '%.40s' of layer %u is not known",
                         type ? type : "(no text)", i);
    if (!types && freq && !number)
        return error_set(error, "config.json: sparse_attention_freq is not a list of %u or more",
                         i);
    return STATUS_OK;
}

static Status minimax_m3_finish(const json_t *json, Config *config, Error *error) {
    const json_t *sparse = json_value(json, "sparse_attention_config");
    const json_t *types = json_value(json, "layer_types");
    const json_t *freq = json_value(sparse, "sparse_attention_freq");
    if (family_refuse_zero(json, "swiglu_limit", error) != STATUS_OK) return STATUS_FAILED;
    for (uint32_t i = 0; i < config->n_layers; i++) {
        bool blocks;
        if (attends_to_blocks(types, freq, i, &blocks, error) != STATUS_OK) return STATUS_FAILED;
        config->layer_kind[i] = blocks ? LAYER_BLOCKS : LAYER_ATTENTION;
    }
    return STATUS_OK;
}

/* Layers that choose blocks are those with an index. */
static Status gguf_minimax_m3_finish(const GgufModel *m, Config *c) {
    for (uint32_t l = 0; l < c->n_layers && l < CONFIG_MAX_LAYERS; l++)
        c->layer_kind[l] =
            gguf_model_layer_has(m, l, "indexer.k_proj.weight") ? LAYER_BLOCKS : LAYER_ATTENTION;
    return STATUS_OK;
}

const FamilyHook families_minimax_m3[] = {
    {"minimax_m3", .finish = minimax_m3_finish, .gguf_finish = gguf_minimax_m3_finish},
    {0},
};
