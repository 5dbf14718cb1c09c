/* EXAONE 3.5 (in GGUF files alone), EXAONE 4 and its mixture. */
#include "families/shared.h"

/* EXAONE 4: when some layers have windows, the layers without one have no RoPE. */
static Status exaone4_finish(const json_t *json, Config *config, Error *error) {
    const json_t *pattern = json_value(json, "sliding_window_pattern"); /* 4, or "LLLG" */
    double every = pattern ? json_is_string(pattern) ? (double)json_string_length(pattern)
                                                     : json_number_value(pattern)
                           : 4;
    if (!(every >= 0 && every < 1e6))
        return error_set(error, "config.json: sliding_window_pattern is %g", every);
    if (family_windows(json, json_value(json, "layer_types"), config, 4096, 0, (uint32_t)every,
                       error) != STATUS_OK)
        return STATUS_FAILED;
    const json_t *window = json_object_get(json, "sliding_window");
    for (uint32_t i = 0; i < config->n_layers; i++)
        config->rope_table[i] = config->window[i] == 0 && !json_is_null(window) ? 2 : 0;
    return STATUS_OK;
}

const FamilyHook families_exaone[] = {
    {"exaone4", .finish = exaone4_finish},
    {0},
};
