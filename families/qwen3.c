/* Qwen 3 and its mixtures: norms of heads. */
#include "families/shared.h"

const Family families_qwen3[] = {
    {
        .model_type = "qwen3_moe",
        .set = SET({"qk_norm", QK_NORM_HEAD}),
        .keys =
            KEYS(SIZE_KEYS(151936, 2048, 6144, 24, 32), KV_HEADS(4), HEAD_DIM(0), CONTEXT(32768),
                 {"rms_norm_eps", "norm_eps", 1e-6}, {"hidden_act", "activation", ACTIVATION_SILU},
                 {"num_local_experts|num_experts", "n_experts", 128},
                 {"num_experts_per_tok", "n_experts_used", 8},
                 {"moe_intermediate_size", "expert_ffn_dim", 768}),
        .biases = BIASES({QKVO, "attention_bias", false}),
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
        .bos_id = -1,
        .eos_id = -1,
        .steps = STEPS(STEP("set", "router softmax_chosen", .when = "norm_topk_prob"),
                       STEP("windows", "4096 unlisted", .when = "use_sliding_window")),
        .gguf =
            (const GgufFamily[]){
                {
                    .architecture = "qwen3moe",
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
    {
        .model_type = "qwen3",
        .set = SET({"qk_norm", QK_NORM_HEAD}),
        .keys = KEYS(SIZE_KEYS(151936, 4096, 22016, 32, 32), KV_HEADS(32), HEAD_DIM(128),
                     CONTEXT(32768), {"rms_norm_eps", "norm_eps", 1e-6},
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
        .bos_id = -1,
        .eos_id = -1,
        .steps =
            STEPS(STEP("windows", "4096 from max_window_layers 28", .when = "use_sliding_window"),
                  STEP("no_windows", .unless = "use_sliding_window")),
        .gguf =
            (const GgufFamily[]){
                {
                    .architecture = "qwen3",
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
                    .full_every = 1,
                },
                {0},
            },
    },
    {0},
};
