/* Falcon 7B, 40B and 180B, and Falcon RW with ALiBi. */
#include "families/shared.h"

static FamilyFinish falcon_finish;

const Family families_falcon[] = {
    /* A Falcon's block has one norm, two, or two of other names, depending on its generation.
       Falcon 40B and 180B: llama.cpp calls the attention's norm attn_norm_2, because it was added
       after the 7B model's only norm, which here is the feed-forward's. */
    {
        .model_type = "falcon",
        .set = SET({"norm", NORM_LAYER}, {"gated", 0}),
        .keys = KEYS({"vocab_size", "vocab_size", 65024}, {"n_embed|hidden_size", "dim", 4544},
                     {"num_hidden_layers", "n_layers", 32}, {"num_attention_heads", "n_heads", 71},
                     {"num_kv_heads", "n_kv_heads", 0}, {"ffn_hidden_size", "ffn_dim", 0},
                     CONTEXT(2048), {"layer_norm_epsilon", "norm_eps", 1e-5},
                     {"activation", "activation", ACTIVATION_GELU}),
        .biases = BIASES({QKVO UP_DOWN, "bias", false}),
        .layers = "model.h.%u.",
        .tensors =
            (const TensorRule[]){
                EMBEDDING("model.word_embeddings"),
                NORM("attention_norm", ".input_layernorm", .optional = true),
                NORM("attention_norm", ".ln_attn", .optional = true),
                NORM("ffn_norm", ".post_attention_layernorm", .optional = true),
                NORM("ffn_norm", ".ln_mlp", .optional = true),
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
        .alibi_is_scaled = true,
        .bos_id = 11,
        .eos_id = 11,
        .steps = STEPS(STEP("wide_ffn")),
        .finish = falcon_finish,
        .gguf =
            (const GgufFamily[]){
                {
                    .architecture = "falcon",
                    .needs_tensor = "blk.0.attn_norm_2.weight",
                    .set = SET({"norm", NORM_LAYER}, {"gated", 0}, {"activation", ACTIVATION_GELU},
                               {"parallel_block", 1}),
                    .tensors =
                        (const TensorRule[]){
                            EMBEDDING("token_embd"),
                            NORM("attention_norm", ".attn_norm_2"),
                            NORM("ffn_norm", ".attn_norm"),
                            GGUF_QKV,
                            GGUF_UNGATED_FFN,
                            GGUF_END,
                            {0},
                        },
                },
                {
                    .architecture = "falcon",
                    .set = SET({"norm", NORM_LAYER}, {"gated", 0}, {"activation", ACTIVATION_GELU},
                               {"parallel_block", 1}),
                    .tensors =
                        (const TensorRule[]){
                            EMBEDDING("token_embd"),
                            GGUF_ATTENTION,
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

static Status falcon_finish(const json_t *json, Config *config, Error *error) {
    bool is_new = json_flag(json, "new_decoder_architecture", false);
    if (!is_new) config->n_kv_heads = json_switch(json, "multi_query", true) ? 1 : config->n_heads;
    config->parallel_block = is_new || json_switch(json, "parallel_attn", true);
    if (json_flag(json, "alibi", false)) config->position = POSITION_ALIBI;
    (void)error;
    return STATUS_OK;
}
