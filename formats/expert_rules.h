/* Shorthands for the keys and tensors that families with mixtures of experts share. */
#ifndef FORMATS_EXPERT_RULES_H
#define FORMATS_EXPERT_RULES_H

#include "formats/family.h"

/* ---- Keys ---- */

#define MOE_KEYS(kv_heads, width, positions, epsilon)                                              \
    KV_HEADS(kv_heads), HEAD_DIM(width), CONTEXT(positions),                                       \
        {"rms_norm_eps", "norm_eps", epsilon}, {                                                   \
        "hidden_act", "activation", ACTIVATION_SILU                                                \
    }
#define EXPERT_KEYS(experts, n, n_used, key, width)                                                \
    {experts, "n_experts", n}, {"num_experts_per_tok", "n_experts_used", n_used}, {                \
        key, "expert_ffn_dim", width                                                               \
    }
/* Families whose class knows the experts' number by both names. */
#define BOTH_NAMES "num_local_experts|num_experts"
#define ROUTED_SIZES(vocab, dim, layers, heads)                                                    \
    {"vocab_size", "vocab_size", vocab}, {"hidden_size", "dim", dim},                              \
        {"num_hidden_layers", "n_layers", layers}, {                                               \
        "num_attention_heads", "n_heads", heads                                                    \
    }
#define GROUP_KEYS(normalize, scale)                                                               \
    {"n_group", "router_groups", 1}, {"topk_group", "router_groups_used", 1},                      \
        {"norm_topk_prob", "router_normalize", normalize}, {                                       \
        "routed_scaling_factor", "router_scale", scale                                             \
    }
#define ROUTED_EXPERTS "n_routed_experts|num_local_experts"

/* ---- Biases ---- */

/* Dense layers and the shared expert have biases, the other experts do not. */
#define DENSE_AND_SHARED GATED "shared.w_up shared.w_down shared.w_gate "

/* ---- Tensors ---- */

#define FROM_LAYER "model.layers.%u."
#define MAYBE(to, from, rows, cols) OPTIONAL(to, FROM_LAYER from ".weight", rows, cols)

/* A layer has either one feed-forward or a router and experts. All are optional here; opening the
 * converted model fails when any is missing. */
#define DENSE_OR_EXPERTS MAYBE("router", "mlp.gate", N_EXPERTS, N_DIM), DENSE_OR_ROUTED
/* The same without the router, whose name or form differs. */
#define DENSE_OR_ROUTED                                                                            \
    MAYBE("w_gate", "mlp.gate_proj", N_FFN, N_DIM), MAYBE("w_up", "mlp.up_proj", N_FFN, N_DIM),    \
        MAYBE("w_down", "mlp.down_proj", N_DIM, N_FFN),                                            \
        MAYBE("experts.%u.w_gate", "mlp.experts.%u.gate_proj", N_EXPERT_FFN, N_DIM),               \
        MAYBE("experts.%u.w_up", "mlp.experts.%u.up_proj", N_EXPERT_FFN, N_DIM),                   \
        MAYBE("experts.%u.w_down", "mlp.experts.%u.down_proj", N_DIM, N_EXPERT_FFN)

/* Score corrections, the shared expert, and biases of dense layers. */
#define CORRECTION(from) OPTIONAL("router.correction", FROM_LAYER from, N_ONE, N_EXPERTS)
#define MAYBE_LINEAR(to, from, rows, cols) OPTIONAL_LINEAR(to, FROM_LAYER from, rows, cols)
#define SHARED(from)                                                                               \
    MAYBE_LINEAR("shared.w_gate", from "gate_proj", N_SHARED_FFN, N_DIM),                          \
        MAYBE_LINEAR("shared.w_up", from "up_proj", N_SHARED_FFN, N_DIM),                          \
        MAYBE_LINEAR("shared.w_down", from "down_proj", N_DIM, N_SHARED_FFN)
#define DENSE_BIASES                                                                               \
    OPTIONAL("w_gate.bias", FROM_LAYER "mlp.gate_proj.bias", N_ONE, N_FFN),                        \
        OPTIONAL("w_up.bias", FROM_LAYER "mlp.up_proj.bias", N_ONE, N_FFN),                        \
        OPTIONAL("w_down.bias", FROM_LAYER "mlp.down_proj.bias", N_ONE, N_DIM)

#endif
