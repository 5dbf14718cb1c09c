/* Phi 1 and 2: attention and feed-forward side by side, biases everywhere. */
#include "families/shared.h"

const Family families_phi[] = {
    {
        .model_type = "phi",
        .set = SET({"norm", NORM_LAYER}, {"parallel_block", 1}, {"gated", 0}),
        .keys = KEYS(SIZE_KEYS(51200, 2048, 8192, 24, 32), KV_HEADS(0), CONTEXT(2048),
                     {"layer_norm_eps", "norm_eps", 1e-5},
                     {"hidden_act", "activation", ACTIVATION_GELU_TANH}),
        .biases = BIASES({QKVO UP_DOWN " output ", NULL, true}),
        .tensors =
            (const TensorRule[]){
                EMBEDDING("model.embed_tokens"),
                NORM("attention_norm", ".input_layernorm"),
                SEPARATE_QKV(".self_attn."),
                LINEAR("wo", ".self_attn.dense", "dim", "n_heads * head_dim"),
                NORM("q_norm", ".self_attn.q_layernorm", "head_dim", .optional = true),
                NORM("k_norm", ".self_attn.k_layernorm", "head_dim", .optional = true),
                LINEAR("w_up", ".mlp.fc1", "ffn_dim", "dim"),
                LINEAR("w_down", ".mlp.fc2", "dim", "ffn_dim"),
                NORM("final_norm", "model.final_layernorm"),
                OUTPUT("lm_head"),
                {0},
            },
        .rope = {.part = "partial_rotary_factor", .part_absent = 0.5, .part_is_even = true},
        .bos_id = 1,
        .eos_id = 2,
        .steps = STEPS(STEP("set", "qk_norm head", .when = "qk_layernorm")),
        .gguf =
            (const GgufFamily[]){
                {
                    .architecture = "phi2",
                    .set = SET({"parallel_block", 1}, {"norm", NORM_LAYER}, {"gated", 0},
                               {"activation", ACTIVATION_GELU_TANH}),
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
