/* DBRX: layer norms without biases, clipped queries, keys and values, stacked experts. */
#include "families/shared.h"

/* Reads the keys of the objects attn_config and ffn_config, in which DBRX has those of attention
 * and of its experts. */
static Status dbrx_finish(const json_t *json, Config *config, Error *error) {
    const json_t *attention = json_value(json, "attn_config"),
                 *ffn = json_value(json, "ffn_config");
    const json_t *act = json_value(ffn, "ffn_act_fn");
    if (family_read_whole(attention, "kv_n_heads", 1, 1, 1 << 20, &config->n_kv_heads, error) !=
            STATUS_OK ||
        family_read_whole(ffn, "ffn_hidden_size", 3584, 1, 1 << 20, &config->experts.ffn_dim,
                          error) != STATUS_OK ||
        family_read_whole(ffn, "moe_num_experts", 4, 1, 1 << 20, &config->experts.count, error) !=
            STATUS_OK ||
        family_read_whole(ffn, "moe_top_k", 1, 1, 1 << 20, &config->experts.per_token, error) !=
            STATUS_OK ||
        family_refuse(ffn, "moe_normalize_expert_weights", "1.0", error) != STATUS_OK ||
        family_refuse(act, "name", "\"silu\"", error) != STATUS_OK ||
        family_refuse_zero(attention, "clip_qkv", error) != STATUS_OK)
        return STATUS_FAILED;
    /* Only null turns it off: without the key the class takes 1.0. */
    bool is_normalized = !json_is_null(json_object_get(ffn, "moe_normalize_expert_weights"));
    config->router.kind = is_normalized ? ROUTER_SOFTMAX_CHOSEN : ROUTER_SOFTMAX;
    config->qkv_clip = (float)json_number(attention, "clip_qkv", 0);
    config->rope_theta = (float)json_number(attention, "rope_theta", 10000);
    return STATUS_OK;
}

const FamilyHook families_dbrx[] = {
    {"dbrx", .finish = dbrx_finish},
    {0},
};
