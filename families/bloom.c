/* BLOOM: ALiBi, a norm of the embeddings, biases everywhere. */
#include "families/shared.h"

const Family families_bloom[] = {
    {
        .model_type = "bloom",
        .set = SET({"norm", NORM_LAYER}, {"position", POSITION_ALIBI},
                   {"activation", ACTIVATION_GELU_TANH}, {"gated", 0}),
        .keys = KEYS({"vocab_size", "vocab_size", 250880}, {"n_embed|hidden_size", "dim", 64},
                     {"n_layer|num_hidden_layers", "n_layers", 2},
                     {"n_head|num_attention_heads", "n_heads", 8}, {"seq_length", "context", 2048},
                     {"layer_norm_epsilon", "norm_eps", 1e-5}),
        .biases = BIASES({QKVO UP_DOWN, NULL, true}),
        .layers = "model.h.%u.",
        .tensors =
            (const TensorRule[]){
                EMBEDDING("model.word_embeddings"),
                NORM("embedding_norm", "model.word_embeddings_layernorm"),
                LLAMA_NORMS,
                LINEAR("wq wk wv", ".self_attention.query_key_value",
                       "n_heads * head_dim + n_kv_heads * head_dim + n_kv_heads * head_dim", "dim",
                       .by = "n_kv_heads"),
                LINEAR("wo", ".self_attention.dense", "dim", "n_heads * head_dim"),
                LINEAR("w_up", ".mlp.dense_h_to_4h", "ffn_dim", "dim"),
                LINEAR("w_down", ".mlp.dense_4h_to_h", "dim", "ffn_dim"),
                NORM("final_norm", "model.ln_f"),
                OUTPUT("lm_head"),
                {0},
            },
        .tied = true,
        .bos_id = 1,
        .eos_id = 2,
        .steps = STEPS(
            STEP("set", "norm_place stream", .when = "apply_residual_connection_post_layernorm"),
            STEP("wide_ffn")),
        .gguf =
            (const GgufFamily[]){
                {
                    .architecture = "bloom",
                    .set = SET({"position", POSITION_ALIBI}, {"norm", NORM_LAYER}, {"gated", 0},
                               {"activation", ACTIVATION_GELU_TANH}),
                    .tensors =
                        (const TensorRule[]){
                            EMBEDDING("token_embd"),
                            NORM("embedding_norm", "token_embd_norm"),
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
