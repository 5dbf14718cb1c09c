/* The first Qwen, and Qwen 2 MoE; qwen2.family has the dense models. */
#include "families/shared.h"

/* Without layer_types, use_sliding_window gives a window to the layers 0, 2, 4 ... below
 * max_window_layers (configuration_qwen2_moe.py). */
static Status qwen2_finish(const json_t *json, Config *config, Error *error) {
    if (!json_flag(json, "use_sliding_window", false)) return family_no_windows(json, error);
    const json_t *types = json_value(json, "layer_types");
    double end = json_number(json, "max_window_layers", 28);
    if (family_windows(json, types, config, 4096, 0, 2, error) != STATUS_OK) return STATUS_FAILED;
    for (uint32_t i = 0; !types && i < config->n_layers; i++)
        if (i >= end) config->window[i] = 0;
    return STATUS_OK;
}

/* The first Qwen's intermediate_size counts the rows of the gate and of the other matrix. */
static Status qwen_finish(const json_t *json, Config *config, Error *error) {
    (void)json;
    if (config->ffn_dim % 2)
        return error_set(error, "config.json: intermediate_size is %u, an odd number",
                         config->ffn_dim);
    config->ffn_dim /= 2;
    return STATUS_OK;
}

const FamilyHook families_qwen2[] = {
    {"qwen", .finish = qwen_finish},
    {"qwen2", .finish = qwen2_finish},
    {0},
};
