/* Command R and R7B: attention and feed-forward side by side, layer norms without biases. */
#include "families/shared.h"

static FamilyFinish compass_finish;

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
    /* The text half of Cohere Compass: Cohere 2 whose layers of each kind have RoPE parameters of
       their own, or null for none. transformers reads rope_parameters alone. */
    {
        .model_type = "cohere_compass_text",
        .set = SET({"norm", NORM_LAYER}, {"parallel_block", 1}),
        .keys = KEYS(SIZE_KEYS(256000, 8192, 22528, 40, 64), KV_HEADS(0), CONTEXT(8192),
                     {"layer_norm_eps", "norm_eps", 1e-5},
                     {"hidden_act", "activation", ACTIVATION_SILU}),
        .fixed = FIXED({"rope_scaling", "null"}),
        .biases = attention_biases,
        .tensors = cohere_tensors,
        .norms_have_no_bias = true,
        .rope = {.theta = "rope_parameters.rope_theta",
                 .local_theta = 10000,
                 .local_theta_key = "rope_parameters.rope_theta"},
        .tied = true,
        .bos_id = 5,
        .eos_id = 255001,
        .steps = STEPS(STEP("windows", "4096 every 1"), STEP("refuse_zero", "logit_scale")),
        .finish = compass_finish,
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

static Status compass_finish(const json_t *json, Config *config, Error *error) {
    const json_t *rope = json_value(json, "rope_parameters");
    (void)error;
    config->logit_scale = (float)json_number(json, "logit_scale", 1);
    for (uint32_t i = 0; i < config->n_layers; i++) {
        bool slides = config->window[i] > 0;
        const char *kind = slides ? "sliding_attention" : "full_attention";
        config->rope_table[i] = !json_value(rope, kind) ? 2 : slides ? 1 : 0;
    }
    return STATUS_OK;
}
