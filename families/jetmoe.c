/* JetMoE: mixtures of attention heads and of feed-forwards. */
#include "families/shared.h"

/* Each expert of a token has a query head for each key/value head. */
static Status jetmoe_finish(const json_t *json, Config *config, Error *error) {
    uint64_t n_heads = (uint64_t)config->n_kv_heads * config->experts.per_token;
    if (family_refuse_zero(json, "rms_norm_eps", error) != STATUS_OK) return STATUS_FAILED;
    if (n_heads == 0 || n_heads > 1 << 12)
        return error_set(error, "config.json: num_key_value_heads is %u, num_experts_per_tok %u",
                         config->n_kv_heads, config->experts.per_token);
    config->n_heads = (uint32_t)n_heads;
    return STATUS_OK;
}

const FamilyHook families_jetmoe[] = {
    {"jetmoe", .finish = jetmoe_finish},
    {0},
};
