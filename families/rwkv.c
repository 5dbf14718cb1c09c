/* RWKV 4: time mixing and channel mixing, without attention. */
#include "families/shared.h"

static Status rwkv_finish(const json_t *json, Config *config, Error *error) {
    double every = json_number(json, "rescale_every", 6);
    if (!(every == floor(every) && fabs(every) <= 1 << 24))
        return error_set(error, "config.json: rescale_every is %g", every);
    /* More layers than there are halve as seldom as never. */
    if (every >= 1 && every <= config->n_layers) config->rwkv.rescale_every = (uint32_t)every;
    if (family_state_read_whole(json, "attention_hidden_size", config->dim, &config->state.n_heads,
                                error) != STATUS_OK)
        return STATUS_FAILED;
    config->state.n_key_heads = config->state.key_dim = config->state.value_dim = 1;
    return STATUS_OK;
}

const FamilyHook families_rwkv[] = {
    {"rwkv", .finish = rwkv_finish},
    {0},
};
