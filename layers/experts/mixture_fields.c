/* What mixtures of experts read of the configuration. It stands apart from mixture.c because
 * core/config_fields.c calls it, as layer_config.c does. */
#include "layers/experts/mixture_fields.h"

#include "core/layer_kind.h"

/* clang-format off */
const FieldTable mixture_keys = FIELD_TABLE(
    KEY_UINT("n_experts_used", experts.per_token, 64),
    KEY_UINT("zero_experts", experts.identity, CONFIG_MAX_EXPERTS),
    KEY_UINT("expert_ffn_dim", experts.ffn_dim, 1 << 20),
    KEY_UINT("expert_dim", experts.dim, 1 << 20),
    KEY_UINT("shared_ffn_dim", experts.shared_ffn_dim, 1 << 20),
    KEY_ENUM("router", router.kind,
             [ROUTER_SOFTMAX] = "softmax",
             [ROUTER_SOFTMAX_CHOSEN] = "softmax_chosen",
             [ROUTER_SPARSE_MIXER] = "sparse_mixer",
             [ROUTER_SIGMOID_SCORES] = "sigmoid_scores",
             [ROUTER_SOFTMAX_SCORES] = "softmax_scores",
             [ROUTER_SCALED] = "scaled",
             [ROUTER_ROOT_SCORES] = "root_scores"),
    KEY_BOOL("share_on_input", experts.weight_on_input),
    KEY_AMOUNT("router_jitter", router.jitter),
    KEY_UINT("router_groups", router.groups, CONFIG_MAX_EXPERTS),
    KEY_UINT("router_groups_used", router.groups_used, CONFIG_MAX_EXPERTS),
    KEY_BOOL("router_normalize", router.normalize),
    KEY_AMOUNT("router_sum_min", router.sum_min),
    KEY_FLOAT("router_scale", router.scale),
    KEY_AMOUNT("router_softcap", router.softcap),
    KEY_FLOAT("shared_scale", experts.shared_scale));

const FieldTable mixture_limit_keys = FIELD_TABLE(
    KEY_AMOUNT("swiglu_limit", experts.swiglu_limit));

const FieldTable mixture_group_keys = FIELD_TABLE(
    KEY_BOOL("router_group_pairs", router.group_pairs),
    KEY_BOOL("router_groups_zero", router.groups_zero),
    KEY_BOOL("router_ranks_logits", router.ranks_logits));

const FieldTable mixture_always_keys = FIELD_TABLE(
    KEY_BOOL("zero_experts_skip", experts.identity_skips),
    KEY_UINT("always_experts", experts.always, 64));

const FieldTable mixture_softcap_keys = FIELD_TABLE(
    KEY_AMOUNT("gate_softcap", experts.gate_softcap),
    KEY_AMOUNT("up_softcap", experts.up_softcap));

const FieldTable mixture_router_dim_keys = FIELD_TABLE(
    KEY_UINT("router_dim", router.dim, 1 << 16));

const FieldTable mixture_logit_scale_keys = FIELD_TABLE(
    KEY_FLOAT("router_logit_scale", router.logit_scale));

/* clang-format on */

Status mixture_validate(const Config *c, Error *error) {
    if (c->experts.swiglu_limit > 0.0f && (!c->gated || c->experts.count == 0))
        return error_set(error, "swiglu_limit needs experts with gates");
    if (c->experts.per_token == 0 || c->experts.per_token > c->experts.count)
        return error_set(error, "n_experts_used is %u of n_experts %u", c->experts.per_token,
                         c->experts.count);
    if (c->experts.identity >= c->experts.count)
        return error_set(error, "zero_experts is %u of n_experts %u", c->experts.identity,
                         c->experts.count);
    if (c->experts.always > 0 &&
        (c->experts.always >= c->experts.per_token || c->experts.identity > 0 ||
         c->router.kind != ROUTER_SIGMOID_SCORES || c->router.groups > 1))
        return error_set(error,
                         "always_experts is %u of n_experts_used %u, with zero_experts %u, "
                         "router_groups %u, or another router than 'sigmoid_scores'",
                         c->experts.always, c->experts.per_token, c->experts.identity,
                         c->router.groups);
    if ((c->experts.gate_softcap > 0.0f) != (c->experts.up_softcap > 0.0f) ||
        (c->experts.gate_softcap > 0.0f &&
         (!c->gated || c->activation != ACTIVATION_SILU || c->experts.swiglu_limit > 0.0f)))
        return error_set(error,
                         "gate_softcap %g and up_softcap %g need each other, gates with 'silu', "
                         "and no swiglu_limit",
                         (double)c->experts.gate_softcap, (double)c->experts.up_softcap);
    if (c->router.dim > 0 && c->stack != STACK_SCALED_SUMS)
        return error_set(error, "router_dim is %u without stack 'scaled_sums'", c->router.dim);
    if (c->experts.ffn_dim == 0) return error_set(error, "expert_ffn_dim is 0");
    uint32_t groups = c->router.groups, used = c->router.groups_used;
    if (groups > 1 &&
        (c->experts.count % groups != 0 || c->experts.count / groups < 2 || used == 0 ||
         used > groups || c->experts.count / groups * used < c->experts.per_token))
        return error_set(error, "router_groups_used is %u of router_groups %u, with n_experts %u",
                         used, groups, c->experts.count);
    return STATUS_OK;
}

double mixture_work(const Config *c) {
    double width = (double)c->experts.per_token * c->experts.ffn_dim + c->experts.shared_ffn_dim;
    return c->dim * (c->gated ? 3.0 : 2.0) * width;
}
