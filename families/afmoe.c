/* AFMoE (Arcee Trinity): norms around each block, gated attention, experts by sigmoid scores. */
#include "families/shared.h"

static GgufFinish gguf_afmoe_finish;

const Family families_afmoe[] = {
    /* The attention's output is multiplied by the sigmoid of a gate for each element. */
    {
        .model_type = "afmoe",
        .set = SET({"norm_place", NORM_AROUND}, {"qk_norm", QK_NORM_HEAD},
                   {"router", ROUTER_SIGMOID_SCORES}, {"router_normalize", 1}),
        .keys = KEYS(
            SIZE_KEYS(200192, 2048, 6144, 32, 16), KV_HEADS(0), HEAD_DIM(128), CONTEXT(16384),
            {"rms_norm_eps", "norm_eps", 1e-5}, {"hidden_act", "activation", ACTIVATION_SILU},
            {"num_experts|num_local_experts", "n_experts", 64},
            {"num_experts_per_tok", "n_experts_used", 6},
            {"moe_intermediate_size", "expert_ffn_dim", 1408}, {"route_scale", "router_scale", 1}),
        .biases = BIASES({QKVO, "attention_bias", false}),
        .tensors =
            (const TensorRule[]){
                EMBEDDING("model.embed_tokens"),
                NORM("attention_norm", ".input_layernorm"),
                NORM("post_attention_norm", ".post_attention_layernorm"),
                NORM("ffn_norm", ".pre_mlp_layernorm"),
                NORM("post_ffn_norm", ".post_mlp_layernorm"),
                LLAMA_ATTENTION,
                QK_HEAD_NORMS,
                MATRIX("attention_gate", ".self_attn.gate_proj.weight", "n_heads * value_dim",
                       "dim"),
                DENSE_OR_EXPERTS,
                MATRIX("router", ".mlp.router.gate.weight", "n_experts", "dim", .optional = true),
                CORRECTION(".mlp.expert_bias"),
                SHARED_EXPERT(".mlp.shared_experts."),
                LLAMA_END,
                {0},
            },
        .bos_id = -1,
        .eos_id = -1,
        /* Only layers with windows have RoPE. */
        .steps = STEPS(STEP("windows", "1024 every global_attn_every_n_layers 4"),
                       STEP("rotate_windows"), STEP("scale_embeddings", .when = "mup_enabled"),
                       STEP("shared_width", "num_shared_experts 2")),
        .gguf =
            (const GgufFamily[]){
                {
                    .architecture = "afmoe",
                    .set = SET({"qk_norm", QK_NORM_HEAD}, {"router", ROUTER_SIGMOID_SCORES},
                               {"router_normalize", 1}),
                    .tensors =
                        (const TensorRule[]){
                            EMBEDDING("token_embd"),
                            GGUF_ATTENTION,
                            GGUF_QK_HEAD_NORMS,
                            MATRIX("attention_gate", ".attn_gate.weight", "n_heads * value_dim",
                                   "dim"),
                            NORM("ffn_norm", ".ffn_norm"),
                            GGUF_ROUTED,
                            GGUF_OUTPUT_NORMS,
                            GGUF_END,
                            {0},
                        },
                    .full_every = 4,
                    .full_are_not_rotated = true,
                    .finish = gguf_afmoe_finish,
                },
                {0},
            },
    },
    {0},
};

static Status gguf_afmoe_finish(const GgufModel *m, Config *c) {
    (void)m;
    c->norm_place = NORM_AROUND;
    c->embedding_scale = (float)sqrt((double)c->dim);
    return STATUS_OK;
}
