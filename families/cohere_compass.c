/* The text half of Cohere Compass: Command R7B (cohere2.family) whose layers of each kind have RoPE
 * parameters of their own, or null for none. transformers reads rope_parameters alone. */
#include "families/shared.h"

static Status compass_finish(const json_t *json, Config *config, Error *error) {
    const json_t *rope = json_value(json, "rope_parameters");
    if (family_refuse_zero(json, "logit_scale", error) != STATUS_OK) return STATUS_FAILED;
    config->logit_scale = (float)json_number(json, "logit_scale", 1);
    for (uint32_t i = 0; i < config->n_layers; i++) {
        bool slides = config->window[i] > 0;
        const char *kind = slides ? "sliding_attention" : "full_attention";
        config->rope_table[i] = !json_value(rope, kind) ? 2 : slides ? 1 : 0;
    }
    return STATUS_OK;
}

const FamilyHook families_cohere_compass[] = {
    {"compass", .finish = compass_finish},
    {0},
};
