/* The text halves of Qwen 2 VL, 2.5 VL and 2.5 Omni. */
#include "families/shared.h"

static FamilyFinish qwen2_finish;
static FamilyFinish qwen2_omni_finish;

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
        .finish = qwen2_finish,
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
        .finish = qwen2_finish,
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
        .finish = qwen2_omni_finish,
    },
    {0},
};

static Status qwen2_finish(const json_t *json, Config *config, Error *error) {
    if (!json_flag(json, "use_sliding_window", false)) return family_no_windows(json, error);
    double first = json_number(json, "max_window_layers", 80);
    return family_windows(json, json_value(json, "layer_types"), config, 4096,
                          first > 0 ? (uint32_t)fmin(first, 1e6) : 0, 0, error);
}

/* As in Qwen 2.5 VL, but for the absent values. */
static Status qwen2_omni_finish(const json_t *json, Config *config, Error *error) {
    if (!json_flag(json, "use_sliding_window", false)) return family_no_windows(json, error);
    double first = json_number(json, "max_window_layers", 28);
    return family_windows(json, json_value(json, "layer_types"), config, 32768,
                          first > 0 ? (uint32_t)fmin(first, 1e6) : 0, 0, error);
}
