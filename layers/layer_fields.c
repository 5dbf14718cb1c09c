/* What the kinds of layers read of the configuration: their fields, their checks, and the size of
 * their matrix products. It stands apart from layer_kinds.c because config.c calls it, and the
 * kinds' own files need modules that need config.c. */
#include "layers/fields.h"

#include <stddef.h>

#include "layer_kind.h"
#include "layers/blocks_fields.h"
#include "layers/differential_fields.h"
#include "layers/latent_fields.h"
#include "layers/latent_moe_fields.h"
#include "layers/state_fields.h"

/* One row for each kind, in the order of LayerKindNumber. */
static const LayerFields *const kinds[LAYER_KINDS] = {
    [LAYER_LATENT] = &latent_fields,
    [LAYER_DELTA] = &delta_fields,
    [LAYER_CONVOLUTION] = &convolution_fields,
    [LAYER_MAMBA2] = &mamba2_fields,
    [LAYER_MAMBA] = &mamba_fields,
    [LAYER_NONE] = &no_fields,
    [LAYER_DIFFERENCE] = &differential_fields,
    [LAYER_LIGHTNING] = &lightning_fields,
    [LAYER_PARALLEL_MAMBA] = &parallel_mamba_fields,
    [LAYER_SHARED] = &shared_block_fields,
    [LAYER_LATENT_MOE] = &latent_moe_fields,
    [LAYER_BLOCKS] = &blocks_fields,
};

/* A row: the key in model.bin, the field of Config, and its limits. */
#define FIELD(key, field, kind_, ...)                                                              \
    { .name = key, .kind = kind_, .offset = offsetof(Config, field), __VA_ARGS__ }
#define UINT(key, field, most_) FIELD(key, field, FIELD_UINT, .most = most_)
#define FLOAT(key, field) FIELD(key, field, FIELD_FLOAT, .not_negative = false)
#define AMOUNT(key, field) FIELD(key, field, FIELD_FLOAT, .not_negative = true)
#define BOOL(key, field) FIELD(key, field, FIELD_BOOL, .least = 0)
#define ENUM(key, field, ...)                                                                      \
    FIELD(key, field, FIELD_ENUM, .names = (const char *const[]){__VA_ARGS__, NULL})

/* clang-format off: a row a line */
static const ConfigField fields[] = {
    UINT("n_experts_used", experts.per_token, 64),
    UINT("zero_experts", experts.identity, CONFIG_MAX_EXPERTS),
    UINT("expert_ffn_dim", experts.ffn_dim, 1 << 20),
    UINT("expert_dim", experts.dim, 1 << 20),
    UINT("shared_ffn_dim", experts.shared_ffn_dim, 1 << 20),
    ENUM("router", router.kind, "softmax", "softmax_chosen", "sparse_mixer", "sigmoid_scores",
         "softmax_scores", "scaled"),
    BOOL("share_on_input", experts.weight_on_input),
    AMOUNT("router_jitter", router.jitter),
    UINT("router_groups", router.groups, CONFIG_MAX_EXPERTS),
    UINT("router_groups_used", router.groups_used, CONFIG_MAX_EXPERTS),
    BOOL("router_normalize", router.normalize),
    AMOUNT("router_sum_min", router.sum_min),
    FLOAT("router_scale", router.scale),
    AMOUNT("router_softcap", router.softcap),
    FLOAT("shared_scale", experts.shared_scale),
    UINT("latent_dim", latent.kv_lora_rank, 1 << 12),
    UINT("latent_q_dim", latent.q_lora_rank, 1 << 16),
    AMOUNT("latent_norm_eps", latent.norm_eps),
    AMOUNT("latent_scale", latent.scale),
    UINT("index_heads", indexer.n_heads, 1 << 10),
    UINT("index_dim", indexer.head_dim, 1 << 12),
    UINT("index_topk", indexer.topk, 1 << 16),
    UINT("index_block", indexer.block, 1 << 16),
    UINT("index_local", indexer.local_blocks, 1 << 16),
    BOOL("index_interleaved", indexer.interleaved),
    BOOL("index_rotates_end", indexer.rotates_end),
    AMOUNT("index_norm_eps", indexer.norm_eps),
    BOOL("latent_q_twice", latent.q_twice),
    BOOL("whole_unrotated", latent.nope_without_shared_key),
    BOOL("query_power", query_power),
    AMOUNT("swiglu_limit", experts.swiglu_limit),
    BOOL("limit_first", limit_first),
    BOOL("residual_by_depth", residual_by_depth),
    AMOUNT("hyper_scale", streams.mix_scale),
    AMOUNT("hyper_eps", streams.mix_eps),
    UINT("hyper_rounds", streams.mix_rounds, 1 << 10),
    UINT("index_pool", indexer.pool, 1 << 12),
    FIELD("indexer", indexer.layer, FIELD_PER_LAYER, .most = INDEXERS - 1),
    UINT("state_heads", state.n_heads, 1 << 16),
    UINT("state_key_heads", state.n_key_heads, 1 << 12),
    UINT("state_key_dim", state.key_dim, 1 << 12),
    UINT("state_value_dim", state.value_dim, 1 << 12),
    UINT("state_kernel", state.conv_kernel, 16),
    UINT("state_rank", state.dt_rank, 1 << 14),
    UINT("shared_blocks", shared_blocks, CONFIG_MAX_LAYERS),
    UINT("adapter_rank", adapter_rank, 1 << 14),
    UINT("per_layer_dim", per_layer.dim, 1 << 12),
    UINT("per_layer_vocab", per_layer.vocab, 1 << 24),
    UINT("altup_streams", streams.count, 16),
    UINT("altup_active", streams.active, 15),
    BOOL("altup_scales", streams.scales),
    UINT("laurel_rank", streams.laurel_rank, 1 << 12),
    BOOL("router_group_pairs", router.group_pairs),
    BOOL("router_groups_zero", router.groups_zero),
    BOOL("router_ranks_logits", router.ranks_logits),
    BOOL("state_tiled", state.tiled),
    BOOL("state_norm_first", state.norm_first),
    BOOL("state_by_key", state.decay_by_key),
    AMOUNT("state_norm_eps", state.norm_eps),
    AMOUNT("state_beta", state.beta),
    AMOUNT("state_decay_most", state.decay_most),
    UINT("mtp_layers", mtp.n_layers, CONFIG_MAX_MTP_LAYERS),
};
/* clang-format on */

const ConfigField *layer_kind_field(size_t i) {
    return i < sizeof fields / sizeof *fields ? &fields[i] : NULL;
}

Status layer_kind_validate(const Config *c, uint32_t layer, Error *error) {
    const LayerFields *kind = kinds[c->layer_kind[layer]];
    if (!kind)
        return error_set(error, "layer %u: layer_kind %u is unknown", layer, c->layer_kind[layer]);
    return kind->validate(c, layer, error);
}

double layer_kind_work(const Config *c, uint32_t layer) {
    const LayerFields *kind = kinds[c->layer_kind[layer]];
    return kind ? kind->work(c, layer) : 0;
}

Status mixture_validate(const Config *c, Error *error) {
    if (c->experts.swiglu_limit > 0.0f && (!c->gated || c->experts.count == 0))
        return error_set(error, "swiglu_limit needs experts with gates");
    if (c->experts.per_token == 0 || c->experts.per_token > c->experts.count)
        return error_set(error, "n_experts_used is %u of n_experts %u", c->experts.per_token,
                         c->experts.count);
    if (c->experts.identity >= c->experts.count)
        return error_set(error, "zero_experts is %u of n_experts %u", c->experts.identity,
                         c->experts.count);
    if (c->experts.ffn_dim == 0) return error_set(error, "expert_ffn_dim is 0");
    uint32_t groups = c->router.groups, used = c->router.groups_used;
    if (groups > 1 &&
        (c->experts.count % groups != 0 || c->experts.count / groups < 2 || used == 0 ||
         used > groups || c->experts.count / groups * used < c->experts.per_token))
        return error_set(error, "router_groups_used is %u of router_groups %u, with n_experts %u",
                         used, groups, c->experts.count);
    return STATUS_OK;
}
