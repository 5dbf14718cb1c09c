/* Nemotron and Jais 2: layer norms, a feed-forward that squares a ReLU. */
#include "families/shared.h"

static const TensorRule gguf_ungated_tensors[] = {
    EMBEDDING("token_embd"),
    GGUF_ATTENTION,
    GGUF_SOME_QK_HEAD_NORMS,
    NORM("ffn_norm", ".ffn_norm"),
    GGUF_UNGATED_FFN,
    GGUF_END,
    {0},
};

const Family families_nemotron[] = {
    {
        .model_type = "nemotron",
        .set = SET({"norm", NORM_LAYER}, {"gated", 0}),
        .keys =
            KEYS(SIZE_KEYS(256000, 6144, 24576, 32, 48), KV_HEADS(0), HEAD_DIM(0), CONTEXT(4096),
                 {"norm_eps", "norm_eps", 1e-5}, {"hidden_act", "activation", ACTIVATION_RELU2}),
        .biases = BIASES({QKVO, "attention_bias", false}, {UP_DOWN, "mlp_bias", false}),
        .tensors =
            (const TensorRule[]){
                EMBEDDING("model.embed_tokens"),
                NORM("attention_norm", ".input_layernorm", .values = VALUES_PLUS_ONE),
                NORM("ffn_norm", ".post_attention_layernorm", .values = VALUES_PLUS_ONE),
                LLAMA_ATTENTION,
                LINEAR("w_up", ".mlp.up_proj", "ffn_dim", "dim"),
                LINEAR("w_down", ".mlp.down_proj", "dim", "ffn_dim"),
                NORM("final_norm", "model.norm", .values = VALUES_PLUS_ONE),
                OUTPUT("lm_head"),
                {0},
            },
        .rope = {.part = "partial_rotary_factor", .part_absent = 0.5},
        .bos_id = 2,
        .eos_id = 3,
        .gguf =
            (const GgufFamily[]){
                {
                    .architecture = "nemotron",
                    .set =
                        SET({"norm", NORM_LAYER}, {"gated", 0}, {"activation", ACTIVATION_RELU2}),
                    .tensors = gguf_ungated_tensors,
                },
                {0},
            },
    },
    {
        .model_type = "jais2",
        .set = SET({"norm", NORM_LAYER}, {"gated", 0}),
        .keys = KEYS(SIZE_KEYS(150272, 3328, 26624, 32, 26), KV_HEADS(0), HEAD_DIM(0),
                     CONTEXT(8192), {"layer_norm_eps", "norm_eps", 1e-5},
                     {"hidden_act", "activation", ACTIVATION_RELU2}),
        .biases = BIASES({QKVO, "attention_bias", true}, {UP_DOWN, "mlp_bias", true}),
        .tensors =
            (const TensorRule[]){
                EMBEDDING("model.embed_tokens"),
                LLAMA_NORMS,
                LLAMA_ATTENTION,
                LINEAR("w_up", ".mlp.up_proj", "ffn_dim", "dim"),
                LINEAR("w_down", ".mlp.down_proj", "dim", "ffn_dim"),
                LLAMA_END,
                {0},
            },
        .bos_id = 0,
        .eos_id = 150024,
        .gguf =
            (const GgufFamily[]){
                {
                    .architecture = "jais2",
                    .set =
                        SET({"norm", NORM_LAYER}, {"gated", 0}, {"activation", ACTIVATION_RELU2}),
                    .tensors = gguf_ungated_tensors,
                },
                {0},
            },
    },
    {0},
};
