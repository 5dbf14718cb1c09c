/* GPT-NeoX and Pythia: attention and feed-forward side by side, fused q, k, v. */
#include "families/shared.h"

const Family families_gpt_neox[] = {
    {
        .model_type = "gpt_neox",
        .set = SET({"norm", NORM_LAYER}, {"gated", 0}),
        .keys = KEYS(SIZE_KEYS(50432, 6144, 24576, 44, 64), CONTEXT(2048),
                     {"layer_norm_eps", "norm_eps", 1e-5},
                     {"hidden_act", "activation", ACTIVATION_GELU},
                     {"use_parallel_residual", "parallel_block", 1}),
        .biases = BIASES({QKVO, "attention_bias", true}, {UP_DOWN, NULL, true}),
        .tensors =
            (const TensorRule[]){
                EMBEDDING("model.embed_in"),
                LLAMA_NORMS,
                LINEAR("wq wk wv", ".attention.query_key_value",
                       "n_heads * head_dim + n_kv_heads * head_dim + n_kv_heads * head_dim", "dim",
                       .by = "n_kv_heads"),
                LINEAR("wo", ".attention.dense", "dim", "n_heads * head_dim"),
                LINEAR("w_up", ".mlp.dense_h_to_4h", "ffn_dim", "dim"),
                LINEAR("w_down", ".mlp.dense_4h_to_h", "dim", "ffn_dim"),
                NORM("final_norm", "model.final_layer_norm"),
                OUTPUT("embed_out"),
                {0},
            },
        .rope = {.theta = "rotary_emb_base", .part = "rotary_pct", .part_absent = 0.25},
        .bos_id = 0,
        .eos_id = 2,
        .gguf =
            (const GgufFamily[]){
                {
                    .architecture = "gptneox",
                    .set = SET({"norm", NORM_LAYER}, {"gated", 0}, {"activation", ACTIVATION_GELU},
                               {"parallel_block", 1}),
                    .keys = GGUF_KEYS({"use_parallel_residual", "parallel_block"}),
                    .tensors =
                        (const TensorRule[]){
                            EMBEDDING("token_embd"),
                            GGUF_ATTENTION,
                            NORM("ffn_norm", ".ffn_norm"),
                            GGUF_UNGATED_FFN,
                            GGUF_END,
                            {0},
                        },
                },
                {0},
            },
    },
    {0},
};
