/* Solar Open: experts by sigmoid scores in every layer. */
#include "families/shared.h"

const Family families_solar_open[] = {
    /* Every layer is a mixture; intermediate_size is not read. */
    {
        .model_type = "solar_open",
        .set = SET({"rope_theta", 1e6}, {"router", ROUTER_SIGMOID_SCORES}),
        .keys = KEYS(
            SIZES_WITHOUT_FFN(196608, 4096, 48, 64), KV_HEADS(8), HEAD_DIM(128), CONTEXT(131072),
            {"rms_norm_eps", "norm_eps", 1e-5}, {"hidden_act", "activation", ACTIVATION_SILU},
            {"n_routed_experts|num_local_experts", "n_experts", 128},
            {"num_experts_per_tok", "n_experts_used", 8},
            {"moe_intermediate_size", "expert_ffn_dim", 1280},
            {"moe_intermediate_size", "ffn_dim", 1280}, {"n_group", "router_groups", 1},
            {"topk_group", "router_groups_used", 1}, {"norm_topk_prob", "router_normalize", 1},
            {"routed_scaling_factor", "router_scale", 1}),
        .biases = BIASES({QKV, "attention_bias", false}),
        .tensors =
            (const TensorRule[]){
                EMBEDDING("model.embed_tokens"),
                LLAMA_NORMS,
                LLAMA_ATTENTION,
                DENSE_OR_EXPERTS,
                CORRECTION(".mlp.gate.e_score_correction_bias"),
                SHARED_EXPERT(".mlp.shared_experts."),
                LLAMA_END,
                {0},
            },
        .rope = {.part = "partial_rotary_factor", .part_absent = 1},
        .bos_id = -1,
        .eos_id = -1,
        .steps = STEPS(STEP("shared_width", "n_shared_experts 1")),
    },
    {0},
};
