/* dots.llm1: experts by sigmoid scores, norms of heads. */
#include "families/shared.h"

const Family families_dots1[] = {
    {
        .model_type = "dots1",
        .set = SET({"qk_norm", QK_NORM_HEAD}, {"router", ROUTER_SIGMOID_SCORES}),
        .keys =
            KEYS(SIZE_KEYS(152064, 4608, 10944, 62, 32), KV_HEADS(32), HEAD_DIM(0), CONTEXT(2048),
                 {"rms_norm_eps", "norm_eps", 1e-6}, {"hidden_act", "activation", ACTIVATION_SILU},
                 {"n_routed_experts|num_local_experts", "n_experts", REQUIRED},
                 {"num_experts_per_tok", "n_experts_used", REQUIRED},
                 {"moe_intermediate_size", "expert_ffn_dim", 1408}, {"n_group", "router_groups", 1},
                 {"topk_group", "router_groups_used", 1}, {"norm_topk_prob", "router_normalize", 0},
                 {"routed_scaling_factor", "router_scale", 1}),
        .biases = BIASES({QKVO, "attention_bias", false}),
        .tensors =
            (const TensorRule[]){
                EMBEDDING("model.embed_tokens"),
                LLAMA_NORMS,
                LLAMA_ATTENTION,
                QK_HEAD_NORMS,
                DENSE_OR_EXPERTS,
                CORRECTION(".mlp.gate.e_score_correction_bias"),
                SHARED_EXPERT(".mlp.shared_experts."),
                LLAMA_END,
                {0},
            },
        .bos_id = -1,
        .eos_id = -1,
        /* Layers from max_window_layers on have windows. */
        .steps = STEPS(STEP("windows", "4096 from max_window_layers 62"),
                       STEP("shared_width", "n_shared_experts 0")),
        .gguf =
            (const GgufFamily[]){
                {
                    .architecture = "dots1",
                    .set = SET({"qk_norm", QK_NORM_HEAD}, {"router", ROUTER_SIGMOID_SCORES},
                               {"router_normalize", 1}),
                    .tensors =
                        (const TensorRule[]){
                            EMBEDDING("token_embd"),
                            GGUF_ATTENTION,
                            GGUF_QK_HEAD_NORMS,
                            NORM("ffn_norm", ".ffn_norm"),
                            GGUF_ROUTED,
                            GGUF_END,
                            {0},
                        },
                    .full_every = 1,
                },
                {0},
            },
    },
    {0},
};
