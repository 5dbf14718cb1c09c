/* Doge: attention with a dynamic mask, a weighted residual stream, and experts found by product
 * keys. */
#include "families/shared.h"

/* A mixture has as many keys as the root of its experts, rounded down. */
static Status doge_finish(const json_t *json, Config *c, Error *error) {
    uint32_t window, keys = 0;
    const json_t *size = json_value(json, "sliding_window");
    if (size && family_state_read_whole(json, "sliding_window", 0, &window, error) != STATUS_OK)
        return STATUS_FAILED;
    for (uint32_t l = 0; size && l < c->n_layers; l++) c->window[l] = window;
    if (!json_is_true(json_value(json, "is_moe"))) return STATUS_OK;
    if (family_state_read_whole(json, "num_experts", 16384, &c->product.count, error) !=
            STATUS_OK ||
        family_state_read_whole(json, "num_experts_per_tok", 64, &c->product.per_token, error) !=
            STATUS_OK)
        return STATUS_FAILED;
    while ((uint64_t)(keys + 1) * (keys + 1) <= c->product.count && keys < 1 << 10) keys++;
    c->product.keys = keys;
    return STATUS_OK;
}

const FamilyHook families_doge[] = {
    {"doge", .finish = doge_finish},
    {0},
};
