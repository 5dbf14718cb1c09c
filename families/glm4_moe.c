/* GLM-4.5 and the text halves of GLM-4V: experts by sigmoid scores. */
#include "families/shared.h"

static GgufFinish gguf_glm4moe_finish;

const Family families_glm4_moe[] = {
    {
        .model_type = "glm4_moe",
        .set = SET({"router", ROUTER_SIGMOID_SCORES}),
        .keys =
            KEYS(SIZE_KEYS(151552, 4096, 10944, 46, 96), KV_HEADS(8), HEAD_DIM(0), CONTEXT(131072),
                 {"rms_norm_eps", "norm_eps", 1e-5}, {"hidden_act", "activation", ACTIVATION_SILU},
                 {"n_routed_experts|num_local_experts", "n_experts", 128},
                 {"num_experts_per_tok", "n_experts_used", 8},
                 {"moe_intermediate_size", "expert_ffn_dim", 1408}, {"n_group", "router_groups", 1},
                 {"topk_group", "router_groups_used", 1}, {"norm_topk_prob", "router_normalize", 1},
                 {"routed_scaling_factor", "router_scale", 1}),
        .biases = BIASES({QKV, "attention_bias", false}),
        .tensors =
            (const TensorRule[]){
                EMBEDDING("model.embed_tokens"),
                LLAMA_NORMS,
                LLAMA_ATTENTION,
                NORM("q_norm", ".self_attn.q_norm", "head_dim", .optional = true),
                NORM("k_norm", ".self_attn.k_norm", "head_dim", .optional = true),
                DENSE_OR_EXPERTS,
                CORRECTION(".mlp.gate.e_score_correction_bias"),
                SHARED_EXPERT(".mlp.shared_experts."),
                LLAMA_END,
                {0},
            },
        .rope = {.part = "partial_rotary_factor", .part_absent = 0.5},
        .prediction = PREDICTION_NEXTN,
        .bos_id = -1,
        .eos_id = -1,
        .steps = STEPS(STEP("set", "qk_norm head", .when = "use_qk_norm"),
                       STEP("shared_width", "n_shared_experts 1")),
        .gguf =
            (const GgufFamily[]){
                {
                    .architecture = "glm4moe",
                    .set = SET({"router", ROUTER_SIGMOID_SCORES}, {"router_normalize", 1}),
                    .tensors =
                        (const TensorRule[]){
                            EMBEDDING("token_embd"),
                            GGUF_ATTENTION,
                            GGUF_SOME_QK_HEAD_NORMS,
                            NORM("ffn_norm", ".post_attention_norm"),
                            GGUF_ROUTED,
                            GGUF_END,
                            {0},
                        },
                    .predicts = true,
                    .finish = gguf_glm4moe_finish,
                },
                {0},
            },
    },
    {0},
};

static Status gguf_glm4moe_finish(const GgufModel *m, Config *c) {
    if (gguf_model_has(m, "blk.0.attn_q_norm.weight")) c->qk_norm = QK_NORM_HEAD;
    return STATUS_OK;
}
