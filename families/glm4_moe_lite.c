/* GLM-4.7-Flash: DeepSeek V3 in small. */
#include "families/shared.h"

const Family families_glm4_moe_lite[] = {
    {
        .model_type = "glm4_moe_lite",
        .set = SET({"rope_pairing", ROPE_INTERLEAVED}, {"router", ROUTER_SIGMOID_SCORES},
                   {"latent_norm_eps", 1e-6}),
        .keys =
            KEYS(SIZE_KEYS(154880, 2048, 10240, 47, 20), {"kv_lora_rank", "latent_dim", 512},
                 {"q_lora_rank", "latent_q_dim", 768}, {"qk_nope_head_dim", "head_dim", 192},
                 {"qk_rope_head_dim", "rotary_dim", 64}, {"v_head_dim", "value_dim", 256},
                 CONTEXT(202752), {"rms_norm_eps", "norm_eps", 1e-5},
                 {"hidden_act", "activation", ACTIVATION_SILU},
                 {"n_routed_experts|num_local_experts", "n_experts", 64},
                 {"num_experts_per_tok", "n_experts_used", 4},
                 {"moe_intermediate_size", "expert_ffn_dim", 1536}, {"n_group", "router_groups", 1},
                 {"topk_group", "router_groups_used", 1}, {"norm_topk_prob", "router_normalize", 1},
                 {"routed_scaling_factor", "router_scale", 1.8}),
        .biases = BIASES({" wq_a wkv_a wo ", "attention_bias", false}),
        .tensors =
            (const TensorRule[]){
                EMBEDDING("model.embed_tokens"),
                LLAMA_NORMS,
                LATENT_ATTENTION,
                DENSE_OR_EXPERTS,
                GATE_UP_EXPERTS(".mlp.experts."),
                DENSE_BIASES,
                CORRECTION(".mlp.gate.e_score_correction_bias"),
                SHARED_EXPERT(".mlp.shared_experts."),
                LLAMA_END,
                {0},
            },
        .prediction = PREDICTION_NEXTN,
        .bos_id = 0,
        .eos_id = 1,
        .steps =
            STEPS(STEP("shared_width", "n_shared_experts 1"),
                  STEP("set", "rope_pairing halves", .unless = "rope_interleave", .absent = true),
                  STEP("latent_heads")),
    },
    {0},
};
