/* The text halves of Qwen 3 VL and Omni. */
#include "families/shared.h"

static const BiasRule attention_biases[] = {
    {QKVO, "attention_bias", false},
    {0},
};

const Family families_qwen3_vl[] = {
    {
        .model_type = "qwen3_vl_moe_text",
        .set = SET({"rope_theta", 500000}, {"qk_norm", QK_NORM_HEAD},
                   {"router", ROUTER_SOFTMAX_CHOSEN}),
        .keys =
            KEYS(SIZE_KEYS(151936, 2048, 5632, 24, 16), KV_HEADS(16), HEAD_DIM(0), CONTEXT(128000),
                 {"rms_norm_eps", "norm_eps", 1e-6}, {"hidden_act", "activation", ACTIVATION_SILU},
                 {"num_local_experts|num_experts", "n_experts", 60},
                 {"num_experts_per_tok", "n_experts_used", 4},
                 {"moe_intermediate_size", "expert_ffn_dim", 1408}),
        .biases = attention_biases,
        .tensors =
            (const TensorRule[]){
                EMBEDDING("model.embed_tokens"),
                LLAMA_NORMS,
                LLAMA_ATTENTION,
                QK_HEAD_NORMS,
                SOME_FFN(".mlp."),
                MATRIX("router", ".mlp.gate.weight", "n_experts", "dim", .optional = true),
                MATRIX("experts.%u.w_gate experts.%u.w_up", ".mlp.experts.gate_up_proj",
                       "expert_ffn_dim + expert_ffn_dim", "dim", .turned = TURNED_WHERE_IT_FITS,
                       .optional = true),
                MATRIX("experts.%u.w_down", ".mlp.experts.down_proj", "dim", "expert_ffn_dim",
                       .turned = TURNED_WHERE_IT_FITS, .optional = true),
                LLAMA_END,
                {0},
            },
        .rope = {.has_sections = true},
        .tied = true,
        .bos_id = -1,
        .eos_id = -1,
        .gguf =
            (const GgufFamily[]){
                {
                    .architecture = "qwen3vlmoe",
                    .set = SET({"router", ROUTER_SOFTMAX_CHOSEN}, {"qk_norm", QK_NORM_HEAD}),
                    .tensors =
                        (const TensorRule[]){
                            EMBEDDING("token_embd"),
                            GGUF_ATTENTION,
                            GGUF_QK_HEAD_NORMS,
                            NORM("ffn_norm", ".ffn_norm"),
                            GGUF_SOME_FFN,
                            GGUF_EXPERTS,
                            GGUF_END,
                            {0},
                        },
                },
                {0},
            },
    },
    /* Norms of queries and keys, experts one by one: Mellum, Qwen 3 Omni. */
    {
        .model_type = "qwen3_omni_moe_text",
        .set = SET({"rope_theta", 1e6}, {"qk_norm", QK_NORM_HEAD}),
        .keys =
            KEYS(SIZE_KEYS(3584, 2048, 18944, 28, 28), KV_HEADS(4), HEAD_DIM(0), CONTEXT(32768),
                 {"rms_norm_eps", "norm_eps", 1e-6}, {"hidden_act", "activation", ACTIVATION_SILU},
                 {"num_local_experts|num_experts", "n_experts", 128},
                 {"num_experts_per_tok", "n_experts_used", 8},
                 {"moe_intermediate_size", "expert_ffn_dim", 768}),
        .biases = attention_biases,
        .tensors =
            (const TensorRule[]){
                EMBEDDING("model.embed_tokens"),
                LLAMA_NORMS,
                LLAMA_ATTENTION,
                QK_HEAD_NORMS,
                DENSE_OR_EXPERTS,
                LLAMA_END,
                {0},
            },
        .rope = {.has_sections = true},
        .bos_id = -1,
        .eos_id = -1,
        /* The weights of the chosen experts add up to 1 unless norm_topk_prob is false. */
        .steps =
            STEPS(STEP("set", "router softmax_chosen", .when = "norm_topk_prob", .absent = true)),
    },
    {
        .model_type = "qwen3_vl_text",
        .set = SET({"rope_theta", 500000}, {"qk_norm", QK_NORM_HEAD}),
        .keys = KEYS(SIZE_KEYS(151936, 4096, 22016, 32, 32), KV_HEADS(32), HEAD_DIM(128),
                     CONTEXT(128000), {"rms_norm_eps", "norm_eps", 1e-6},
                     {"hidden_act", "activation", ACTIVATION_SILU}),
        .biases = BIASES({QKVO, "attention_bias", false}),
        .tensors =
            (const TensorRule[]){
                EMBEDDING("model.embed_tokens"),
                LLAMA_NORMS,
                LLAMA_ATTENTION,
                QK_HEAD_NORMS,
                LLAMA_FFN,
                LLAMA_END,
                {0},
            },
        .rope = {.has_sections = true},
        .bos_id = -1,
        .eos_id = -1,
        .gguf =
            (const GgufFamily[]){
                {
                    .architecture = "qwen3vl",
                    .set = SET({"qk_norm", QK_NORM_HEAD}),
                    .tensors =
                        (const TensorRule[]){
                            EMBEDDING("token_embd"),
                            GGUF_ATTENTION,
                            GGUF_QK_HEAD_NORMS,
                            NORM("ffn_norm", ".ffn_norm"),
                            GGUF_FFN,
                            GGUF_END,
                            {0},
                        },
                },
                {0},
            },
    },
    {0},
};
