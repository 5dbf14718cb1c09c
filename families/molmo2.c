/* The text half of Molmo 2: a Qwen 3 in names of its own, or an OLMo 2. */
#include "families/shared.h"

static Status molmo2_finish(const json_t *json, Config *config, Error *error) {
    const char *kind = json_text(json, "qk_norm_type");
    if (kind && strcmp(kind, "olmo") == 0)
        config->qk_norm = QK_NORM_ALL;
    else if (kind && strcmp(kind, "qwen3") != 0)
        return error_set(error, "config.json: qk_norm_type is '%.40s'", kind);
    const json_t *scaled = json_value(json, "rope_scaling_layers");
    if (scaled && !json_is_array(scaled))
        return error_set(error, "config.json: rope_scaling_layers is not a list");
    for (uint32_t i = 0; scaled && i < config->n_layers; i++) config->rope_table[i] = 1;
    for (size_t i = 0; i < json_array_size(scaled); i++) {
        const json_t *layer = json_array_get(scaled, i);
        json_int_t number = json_integer_value(layer);
        if (json_is_integer(layer) && number >= 0 && number < (json_int_t)config->n_layers)
            config->rope_table[number] = 0;
    }
    return STATUS_OK;
}

const FamilyHook families_molmo2[] = {
    {"molmo2", .finish = molmo2_finish},
    {0},
};
