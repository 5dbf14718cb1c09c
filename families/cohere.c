/* Command R and R7B: attention and feed-forward side by side, layer norms without biases. */
#include "families/shared.h"

static const ConfigRule cohere_config[] = {
    SIZE_KEYS(256000, 8192, 22528, 40, 64),
    KV_HEADS(0),
    HEAD_DIM(0),
    CONTEXT(8192),
    {"layer_norm_eps", "norm_eps", 1e-5},
    {"hidden_act", "activation", ACTIVATION_SILU},
    {"logit_scale", "logit_scale", 0.0625},
    {0},
};

static const BiasRule attention_biases[] = {
    {QKVO, "attention_bias", false},
    {0},
};

static const TensorRule cohere_tensors[] = {
    EMBEDDING("model.embed_tokens"),
    NORM("attention_norm", ".input_layernorm"),
    LLAMA_ATTENTION,
    VECTOR("q_norm", ".self_attn.q_norm.weight", "n_heads * head_dim", .optional = true),
    VECTOR("k_norm", ".self_attn.k_norm.weight", "n_kv_heads * head_dim", .optional = true),
    LLAMA_FFN,
    LLAMA_END,
    {0},
};

static const TensorRule gguf_cohere_tensors[] = {
    EMBEDDING("token_embd"), GGUF_ATTENTION, GGUF_SOME_QK_WEIGHTS, GGUF_FFN, GGUF_END, {0},
};

const Family families_cohere[] = {
    {
        .model_type = "cohere",
        .set = SET({"norm", NORM_LAYER}, {"parallel_block", 1}, {"rope_pairing", ROPE_INTERLEAVED},
                   {"rope_theta", 500000}),
        .keys = cohere_config,
        .biases = attention_biases,
        .tensors = cohere_tensors,
        .norms_have_no_bias = true,
        .tied = true,
        .bos_id = 5,
        .eos_id = 255001,
        .steps = STEPS(STEP("set", "qk_norm each", .when = "use_qk_norm")),
        .gguf =
            (const GgufFamily[]){
                {
                    .architecture = "command-r",
                    .pairing = ROPE_INTERLEAVED,
                    .tensors = gguf_cohere_tensors,
                    .finish = gguf_cohere_finish,
                },
                {0},
            },
    },
    {
        .model_type = "cohere2",
        .set = SET({"norm", NORM_LAYER}, {"parallel_block", 1}, {"rope_pairing", ROPE_INTERLEAVED}),
        .keys = cohere_config,
        .biases = attention_biases,
        .tensors = cohere_tensors,
        .norms_have_no_bias = true,
        .tied = true,
        .bos_id = 5,
        .eos_id = 255001,
        /* Cohere 2: only layers with windows have RoPE. */
        .steps =
            STEPS(STEP("windows", "4096 every sliding_window_pattern 4"), STEP("rotate_windows")),
        .gguf =
            (const GgufFamily[]){
                {
                    .architecture = "cohere2",
                    .pairing = ROPE_INTERLEAVED,
                    .tensors = gguf_cohere_tensors,
                    .full_every = 4,
                    .full_are_not_rotated = true,
                    .finish = gguf_cohere_finish,
                },
                {0},
            },
    },
    {0},
};
