/* xLSTM: matrix LSTMs (mLSTM), without attention. */
#include "families/shared.h"

/* Reads the width of all heads together, a factor of the model's, rounded down. */
static Status read_heads(const json_t *json, const char *key, double absent, const Config *config,
                         uint32_t *out, Error *error) {
    double width = floor((double)config->dim * json_number(json, key, absent));
    if (config->state.n_heads == 0 || !(width >= 1 && width <= 1 << 20) ||
        (uint32_t)width % config->state.n_heads != 0)
        return error_set(error, "config.json: %s gives %u heads %g elements", key,
                         config->state.n_heads, width);
    *out = (uint32_t)width / config->state.n_heads;
    return STATUS_OK;
}

/* Sets the sizes of the heads, makes all layers mLSTM layers, and sets the feed-forward's width:
 * with m = ffn_round_up_to_multiple_of, m * floor((ffn_proj_factor * dim + m - 1) / m). */
static Status xlstm_finish(const json_t *json, Config *config, Error *error) {
    uint32_t multiple = 1;
    double width = config->dim * json_number(json, "ffn_proj_factor", 2.667);
    if (family_refuse_zero(json, "gate_soft_cap", error) != STATUS_OK ||
        family_refuse_zero(json, "output_logit_soft_cap", error) != STATUS_OK)
        return STATUS_FAILED;
    if (json_number(json, "embedding_dim", config->dim) != (double)config->dim)
        return error_set(error, "config.json: embedding_dim is not hidden_size (%u)", config->dim);
    if (read_heads(json, "qk_dim_factor", 0.5, config, &config->state.key_dim, error) !=
            STATUS_OK ||
        read_heads(json, "v_dim_factor", 1.0, config, &config->state.value_dim, error) !=
            STATUS_OK ||
        family_state_read_whole(json, "ffn_round_up_to_multiple_of", 64, &multiple, error) !=
            STATUS_OK)
        return STATUS_FAILED;
    width = floor((width + multiple - 1) / multiple) * multiple;
    if (!(width >= 1 && width <= 1 << 20))
        return error_set(error, "config.json: ffn_proj_factor gives a width of %g", width);
    config->ffn_dim = (uint32_t)width;
    config->state.n_key_heads = config->state.n_heads;
    return STATUS_OK;
}

const FamilyHook families_xlstm[] = {
    {"xlstm", .finish = xlstm_finish},
    {0},
};
