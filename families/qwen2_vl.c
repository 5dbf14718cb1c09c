/* The text halves of Qwen 2 VL, 2.5 VL and 2.5 Omni. */
#include "families/shared.h"

static const ConfigRule qwen2_config[] = {
    SIZE_KEYS(152064, 8192, 29568, 80, 64),
    KV_HEADS(8),
    CONTEXT(32768),
    {"rms_norm_eps", "norm_eps", 1e-5},
    {"hidden_act", "activation", ACTIVATION_SILU},
    {0},
};

static const BiasRule qkv_biases[] = {
    {QKV, NULL, true},
    {0},
};

static const TensorRule llama_tensors[] = {
    EMBEDDING("model.embed_tokens"), LLAMA_NORMS, LLAMA_ATTENTION, LLAMA_FFN, LLAMA_END, {0},
};

const Family families_qwen2_vl[] = {
    {
        .model_type = "qwen2_vl_text",
        .set = SET({"rope_theta", 1e6}),
        .keys = qwen2_config,
        .biases = qkv_biases,
        .tensors = llama_tensors,
        .rope = {.has_sections = true},
        .bos_id = 151643,
        .eos_id = 151645,
        .steps =
            STEPS(STEP("windows", "4096 from max_window_layers 80", .when = "use_sliding_window"),
                  STEP("no_windows", .unless = "use_sliding_window")),
        .gguf =
            (const GgufFamily[]){
                {
                    .architecture = "qwen2vl",
                    .tensors =
                        (const TensorRule[]){
                            EMBEDDING("token_embd"),
                            GGUF_ATTENTION,
                            NORM("ffn_norm", ".ffn_norm"),
                            GGUF_FFN,
                            GGUF_END,
                            {0},
                        },
                },
                {0},
            },
    },
    {
        .model_type = "qwen2_5_vl_text",
        .set = SET({"rope_theta", 1e6}),
        .keys = qwen2_config,
        .biases = qkv_biases,
        .tensors = llama_tensors,
        .rope = {.has_sections = true},
        .bos_id = 151643,
        .eos_id = 151645,
        .steps =
            STEPS(STEP("windows", "4096 from max_window_layers 80", .when = "use_sliding_window"),
                  STEP("no_windows", .unless = "use_sliding_window")),
    },
    {
        .model_type = "qwen2_5_omni_text",
        .set = SET({"rope_theta", 1e6}),
        .keys =
            KEYS(SIZE_KEYS(152064, 3584, 18944, 28, 28), KV_HEADS(4), CONTEXT(32768),
                 {"rms_norm_eps", "norm_eps", 1e-6}, {"hidden_act", "activation", ACTIVATION_SILU}),
        .biases = qkv_biases,
        .tensors = llama_tensors,
        .rope = {.has_sections = true},
        .tied = true,
        .bos_id = -1,
        .eos_id = -1,
        /* As in Qwen 2.5 VL, but for the absent values. */
        .steps =
            STEPS(STEP("windows", "32768 from max_window_layers 28", .when = "use_sliding_window"),
                  STEP("no_windows", .unless = "use_sliding_window")),
    },
    {0},
};
