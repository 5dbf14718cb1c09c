/* Rules that llama's relatives share, whichever file their entries are in. */
#ifndef FORMATS_FAMILY_RULES_H
#define FORMATS_FAMILY_RULES_H

#include "formats/expert_rules.h"

/* `epsilon` is the name of the norms' epsilon. */
#define LLAMA_KEYS(kv_heads, width, positions, epsilon, eps)                                       \
    KV_HEADS(kv_heads), HEAD_DIM(width), CONTEXT(positions), {epsilon, "norm_eps", eps}, {         \
        "hidden_act", "activation", ACTIVATION_SILU                                                \
    }

#define GEMMA_KEYS(kv_heads, positions, activation)                                                \
    KV_HEADS(kv_heads), HEAD_DIM(256), CONTEXT(positions), {"rms_norm_eps", "norm_eps", 1e-6}, {   \
        activation, "activation", ACTIVATION_GELU_TANH                                             \
    }

#define QK_NORMS(n_q, n_k)                                                                         \
    NORM_OF("q_norm", "model.layers.%u.self_attn.q_norm", n_q),                                    \
        NORM_OF("k_norm", "model.layers.%u.self_attn.k_norm", n_k)

#define OUTPUT_NORMS                                                                               \
    NORM("post_attention_norm", "model.layers.%u.post_attention_layernorm"),                       \
        NORM("post_ffn_norm", "model.layers.%u.post_feedforward_layernorm")

#define NORM_PLUS_ONE(to, from, n)                                                                 \
    {                                                                                              \
        to, from ".weight", N_ONE, n, RULE_ADD_ONE, {0}, {                                         \
            0                                                                                      \
        }                                                                                          \
    }
#define GEMMA_END NORM_PLUS_ONE("final_norm", "model.norm", N_DIM), OUTPUT("lm_head")

#define PARTIAL_ROPE(absent)                                                                       \
    { .part = "partial_rotary_factor", .part_absent = absent }

#define HUNYUAN_NORMS                                                                              \
    NORM_OF("q_norm", FROM_LAYER "self_attn.query_layernorm", N_HEAD),                             \
        NORM_OF("k_norm", FROM_LAYER "self_attn.key_layernorm", N_HEAD)
#define SINKS                                                                                      \
    {                                                                                              \
        "sinks", FROM_LAYER "self_attn.sinks", N_ONE, N_HEADS, 0, {0}, {                           \
            0                                                                                      \
        }                                                                                          \
    }

/* ---- Tensors of mixtures of experts ---- */

/* A tensor that stacks a matrix of each expert. */
#define STACKED(to, from, rows, cols, flags, ...)                                                  \
    { to, FROM_LAYER from, rows, cols, flags, __VA_ARGS__ }
/* Gate and up of all experts in one tensor, down in another. */
#define STACKED_EXPERTS(gate_up, down, flags)                                                      \
    STACKED("experts.%u.w_gate", gate_up, N_EXPERT_FFN, N_DIM, flags, {0},                         \
            {N_EXPERT_FFN, N_EXPERT_FFN}),                                                         \
        STACKED("experts.%u.w_up", gate_up, N_EXPERT_FFN, N_DIM, flags, {N_EXPERT_FFN},            \
                {N_EXPERT_FFN, N_EXPERT_FFN}),                                                     \
        STACKED("experts.%u.w_down", down, N_DIM, N_EXPERT_FFN, flags, {0}, {0})

#endif
