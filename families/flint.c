/* Flint: a mixture with sinks, and windows in three of four layers. */
#include "families/shared.h"

/* Layers with full attention have no RoPE. They are those that layer_types lists; without a list
 * the first two, every fourth from the second on, and the last. The others have a window (513
 * unless config.json has another). */
static Status flint_finish(const json_t *json, Config *config, Error *error) {
    const json_t *types = json_value(json, "layer_types");
    if (family_windows(json, types, config, 513, 0, 0, error) != STATUS_OK) return STATUS_FAILED;
    for (uint32_t i = 0; i < config->n_layers; i++) {
        bool full = i < 2 || i % 4 == 1 || i == config->n_layers - 1;
        if (!types && full) config->window[i] = 0;
        config->rope_table[i] = config->window[i] ? 0 : 2; /* 2: not rotated */
    }
    return STATUS_OK;
}

const FamilyHook families_flint[] = {
    {"flint", .finish = flint_finish},
    {0},
};
