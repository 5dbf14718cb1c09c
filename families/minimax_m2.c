/* MiniMax M2: norms of all queries and keys, experts by sigmoid scores. */
#include "families/shared.h"

const Family families_minimax_m2[] = {
    {
        .model_type = "minimax_m2",
        .set = SET({"rope_theta", 5e6}, {"qk_norm", QK_NORM_ALL}, {"router", ROUTER_SIGMOID_SCORES},
                   {"router_normalize", 1}),
        .keys =
            KEYS(SIZE_KEYS(200064, 3072, 1536, 62, 48), KV_HEADS(8), HEAD_DIM(128), CONTEXT(196608),
                 {"rms_norm_eps", "norm_eps", 1e-6}, {"hidden_act", "activation", ACTIVATION_SILU},
                 {"num_local_experts|num_experts", "n_experts", 256},
                 {"num_experts_per_tok", "n_experts_used", 8},
                 {"intermediate_size", "expert_ffn_dim", 1536}),
        .tensors =
            (const TensorRule[]){
                EMBEDDING("model.embed_tokens"),
                LLAMA_NORMS,
                LLAMA_ATTENTION,
                NORM("q_norm", ".self_attn.q_norm", "n_heads * head_dim"),
                NORM("k_norm", ".self_attn.k_norm", "n_kv_heads * head_dim"),
                LINEAR("router", ".block_sparse_moe.gate", "n_experts", "dim"),
                CORRECTION(".block_sparse_moe.e_score_correction_bias"),
                LINEAR("experts.%u.w_gate", ".block_sparse_moe.experts.%u.w1", "expert_ffn_dim",
                       "dim"),
                LINEAR("experts.%u.w_up", ".block_sparse_moe.experts.%u.w3", "expert_ffn_dim",
                       "dim"),
                LINEAR("experts.%u.w_down", ".block_sparse_moe.experts.%u.w2", "dim",
                       "expert_ffn_dim"),
                LLAMA_END,
                {0},
            },
        .rope = {.part = "partial_rotary_factor", .part_absent = 1, .count = "rotary_dim"},
        .bos_id = 200034,
        .eos_id = 200020,
        .gguf =
            (const GgufFamily[]){
                {
                    .architecture = "minimax-m2",
                    .set = SET({"qk_norm", QK_NORM_ALL}, {"router", ROUTER_SIGMOID_SCORES},
                               {"router_normalize", 1}),
                    .tensors =
                        (const TensorRule[]){
                            EMBEDDING("token_embd"),
                            GGUF_ATTENTION,
                            GGUF_QK_NORMS,
                            NORM("ffn_norm", ".ffn_norm"),
                            GGUF_ROUTED,
                            GGUF_END,
                            {0},
                        },
                },
                {0},
            },
    },
    {0},
};
