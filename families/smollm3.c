/* SmolLM3: a llama some of whose layers have no RoPE. */
#include "families/shared.h"

/* The layers with windows are those that layer_types names, whatever use_sliding_window says;
 * without layer_types those without RoPE. */
static Status smollm3_finish(const json_t *json, Config *config, Error *error) {
    const json_t *types = json_value(json, "layer_types");
    if (!types && !json_flag(json, "use_sliding_window", false)) return STATUS_OK;
    if (family_windows(json, types, config, 0, 0, 0, error) != STATUS_OK) return STATUS_FAILED;
    for (uint32_t i = 0; !types && i < config->n_layers; i++)
        if (config->rope_table[i] == 0) config->window[i] = 0;
    return STATUS_OK;
}

static Status gguf_smollm3_finish(const GgufModel *m, Config *c) {
    (void)m;
    for (uint32_t i = 0; i < CONFIG_MAX_LAYERS; i++) c->rope_table[i] = (i + 1) % 4 ? 0 : 2;
    return STATUS_OK;
}

const FamilyHook families_smollm3[] = {
    {"smollm3", .finish = smollm3_finish, .gguf_finish = gguf_smollm3_finish},
    {0},
};
