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

/* ---- Tensors ---- */

#define FROM_LAYER "model.layers.%u."
#define MAYBE(to, from, rows, cols) OPTIONAL(to, FROM_LAYER from ".weight", rows, cols)

/* A layer has either one feed-forward or a router and experts. All are optional here; opening the
 * converted model fails when any is missing. */
#define DENSE_OR_EXPERTS                                                                           \
    MAYBE("w_gate", "mlp.gate_proj", N_FFN, N_DIM), MAYBE("w_up", "mlp.up_proj", N_FFN, N_DIM),    \
        MAYBE("w_down", "mlp.down_proj", N_DIM, N_FFN),                                            \
        MAYBE("router", "mlp.gate", N_EXPERTS, N_DIM),                                             \
        MAYBE("experts.%u.w_gate", "mlp.experts.%u.gate_proj", N_EXPERT_FFN, N_DIM),               \
        MAYBE("experts.%u.w_up", "mlp.experts.%u.up_proj", N_EXPERT_FFN, N_DIM),                   \
        MAYBE("experts.%u.w_down", "mlp.experts.%u.down_proj", N_DIM, N_EXPERT_FFN)

#endif
