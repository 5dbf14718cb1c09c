/* CTRL: sinusoids, layer norms, ReLU. */
#include "families/shared.h"

const Family families_ctrl[] = {
    /* The epsilon of its blocks' norms is fixed, and the last norm must have the same. */
    {
        .model_type = "ctrl",
        .set = SET({"norm", NORM_LAYER}, {"norm_eps", 1e-6}, {"position", POSITION_SINUSOIDAL},
                   {"sinusoid_layout", SINUSOID_HALVES}, {"activation", ACTIVATION_RELU},
                   {"gated", 0}),
        .keys =
            KEYS({"vocab_size", "vocab_size", 246534}, {"n_embd|hidden_size", "dim", 1280},
                 {"n_layer|num_hidden_layers", "n_layers", 48},
                 {"n_head|num_attention_heads", "n_heads", 16},
                 {"n_positions|max_position_embeddings", "context", 256}, {"dff", "ffn_dim", 8192}),
        .fixed = FIXED({"layer_norm_epsilon", "1e-6"}),
        .biases = BIASES({QKVO UP_DOWN " output ", NULL, true}),
        .layers = "model.h.%u.",
        .tensors =
            (const TensorRule[]){
                EMBEDDING("model.w"),
                NORM("attention_norm", ".layernorm1"),
                NORM("ffn_norm", ".layernorm2"),
                LINEAR("wq", ".multi_head_attention.Wq", "n_heads * head_dim", "dim"),
                LINEAR("wk", ".multi_head_attention.Wk", "n_kv_heads * head_dim", "dim"),
                LINEAR("wv", ".multi_head_attention.Wv", "n_kv_heads * head_dim", "dim"),
                LINEAR("wo", ".multi_head_attention.dense", "dim", "n_heads * head_dim"),
                LINEAR("w_up", ".ffn.0", "ffn_dim", "dim"),
                LINEAR("w_down", ".ffn.2", "dim", "ffn_dim"),
                NORM("final_norm", "model.layernorm"),
                OUTPUT("lm_head"),
                {0},
            },
        .tied = true,
        .bos_id = -1,
        .eos_id = -1,
        .steps = STEPS(STEP("scale_embeddings", .when = "scale_embedding", .absent = true)),
    },
    {0},
};
