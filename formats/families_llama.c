/* Llama and its relatives: gated feed-forward, RoPE, no or few biases. */
#include <stdio.h>
#include <string.h>

#include "formats/family_rules.h"
#include "formats/json.h"

/* ---- Keys ---- */

static const ConfigRule llama_config[] = {
    SIZE_KEYS(32000, 4096, 11008, 32, 32), LLAMA_KEYS(0, 0, 2048, "rms_norm_eps", 1e-6), {0}};
static const ConfigRule mistral_config[] = {
    SIZE_KEYS(32000, 4096, 14336, 32, 32), LLAMA_KEYS(8, 0, 131072, "rms_norm_eps", 1e-6), {0}};
static const ConfigRule qwen2_config[] = {
    SIZE_KEYS(151936, 4096, 22016, 32, 32), LLAMA_KEYS(32, 0, 32768, "rms_norm_eps", 1e-6), {0}};
static const ConfigRule qwen3_config[] = {
    SIZE_KEYS(151936, 4096, 22016, 32, 32), LLAMA_KEYS(32, 128, 32768, "rms_norm_eps", 1e-6), {0}};
static const ConfigRule smollm3_config[] = {
    SIZE_KEYS(128256, 2048, 11008, 36, 16), LLAMA_KEYS(4, 0, 32768, "rms_norm_eps", 1e-6), {0}};
/* OLMo's epsilon is fixed. */
static const ConfigRule olmo_config[] = {
    SIZE_KEYS(50304, 4096, 11008, 32, 32),
    KV_HEADS(0),
    HEAD_DIM(0),
    CONTEXT(2048),
    {"hidden_act", "activation", ACTIVATION_SILU},
    {"clip_qkv", "qkv_clip", 0},
    {0},
};
static const ConfigRule olmo2_config[] = {
    SIZE_KEYS(50304, 4096, 11008, 32, 32), LLAMA_KEYS(0, 0, 2048, "rms_norm_eps", 1e-5), {0}};
static const ConfigRule granite_config[] = {
    SIZE_KEYS(32000, 4096, 11008, 32, 32),
    LLAMA_KEYS(0, 0, 2048, "rms_norm_eps", 1e-6),
    GRANITE_KEYS,
    {0},
};
static const ConfigRule exaone4_config[] = {
    SIZE_KEYS(102400, 4096, 16384, 32, 32), LLAMA_KEYS(32, 0, 2048, "rms_norm_eps", 1e-5), {0}};
static const ConfigRule glm_config[] = {SIZE_KEYS(151552, 4096, 13696, 40, 32),
                                        LLAMA_KEYS(2, 128, 131072, "rms_norm_eps", 1.5625e-7),
                                        {0}};
static const ConfigRule ernie_config[] = {
    SIZE_KEYS(103424, 1024, 3072, 18, 16), LLAMA_KEYS(2, 128, 131072, "rms_norm_eps", 1e-5), {0}};
static const ConfigRule helium_config[] = {
    SIZE_KEYS(48000, 2560, 7040, 24, 20), LLAMA_KEYS(20, 128, 4096, "rms_norm_eps", 1e-8), {0}};
static const ConfigRule seed_config[] = {
    SIZE_KEYS(155136, 4096, 27648, 64, 80), LLAMA_KEYS(8, 128, 524288, "rms_norm_eps", 1e-6), {0}};
static const ConfigRule phi3_config[] = {
    SIZE_KEYS(32064, 3072, 8192, 32, 32), LLAMA_KEYS(0, 0, 4096, "rms_norm_eps", 1e-5), {0}};
static const ConfigRule stablelm_config[] = {
    SIZE_KEYS(50304, 2560, 6912, 32, 32), LLAMA_KEYS(32, 0, 4096, "layer_norm_eps", 1e-5), {0}};
static const ConfigRule cohere_config[] = {
    SIZE_KEYS(256000, 8192, 22528, 40, 64),
    LLAMA_KEYS(0, 0, 8192, "layer_norm_eps", 1e-5),
    {"logit_scale", "logit_scale", 0.0625},
    {0},
};

static const ConfigRule gemma_config[] = {
    SIZE_KEYS(256000, 3072, 24576, 28, 16), GEMMA_KEYS(16, 8192, "hidden_act"), {0}};
static const ConfigRule gemma2_config[] = {
    SIZE_KEYS(256000, 2304, 9216, 26, 8), GEMMA_KEYS(4, 8192, "hidden_activation"), {0}};
static const ConfigRule gemma3_config[] = {
    SIZE_KEYS(262208, 2304, 9216, 26, 8), GEMMA_KEYS(4, 131072, "hidden_activation"), {0}};
static const FixedKey gemma_fixed[] = {{"use_bidirectional_attention", "false"}, {0}};

static const ConfigRule guide_config[] = {
    SIZE_KEYS(REQUIRED, REQUIRED, REQUIRED, REQUIRED, REQUIRED),
    KV_HEADS(0),
    CONTEXT(REQUIRED),
    {"layer_norm_eps", "norm_eps", 1e-5},
    {0},
};

/* ---- Biases ---- */

static const BiasRule llama_biases[] = {
    {QKVO, "attention_bias", false}, {GATED, "mlp_bias", false}, {0}};
static const BiasRule attention_biases[] = {{QKVO, "attention_bias", false}, {0}};
static const BiasRule internlm2_biases[] = {{QKVO, "bias", true}, {0}};
static const BiasRule qwen2_biases[] = {{QKV, NULL, true}, {0}};
static const BiasRule glm_biases[] = {{QKV, "attention_bias", true}, {0}};
static const BiasRule ernie_biases[] = {{QKVO GATED, "use_bias", false}, {0}};
static const BiasRule helium_biases[] = {
    {QKV, "attention_bias", false}, {GATED, "mlp_bias", false}, {0}};
static const BiasRule seed_biases[] = {{QKV, "attention_bias", true},
                                       {" wo ", "attention_out_bias", false},
                                       {GATED, "mlp_bias", false},
                                       {0}};
static const BiasRule stablelm_biases[] = {{QKV, "use_qkv_bias", false}, {0}};
static const BiasRule guide_biases[] = {{QKVO UP_DOWN "output ", NULL, true}, {0}};

/* ---- Tensors ---- */

static const TensorRule llama_tensors[] = {LLAMA_EMBEDDING, LLAMA_NORMS, LLAMA_ATTENTION,
                                           LLAMA_FFN,       LLAMA_END,   {0}};

/* InternLM 2: a llama whose tensors have other names. */
static const TensorRule internlm2_tensors[] = {
    EMBEDDING("model.tok_embeddings"),
    NORM("attention_norm", "model.layers.%u.attention_norm"),
    GROUPED_QKV("model.layers.%u.attention.wqkv"),
    LINEAR("wo", "model.layers.%u.attention.wo", N_DIM, N_Q),
    NORM("ffn_norm", "model.layers.%u.ffn_norm"),
    LINEAR("w_gate", "model.layers.%u.feed_forward.w1", N_FFN, N_DIM),
    LINEAR("w_up", "model.layers.%u.feed_forward.w3", N_FFN, N_DIM),
    LINEAR("w_down", "model.layers.%u.feed_forward.w2", N_DIM, N_FFN),
    NORM("final_norm", "model.norm"),
    OUTPUT("output"),
    {0},
};

static const TensorRule qwen3_tensors[] = {
    LLAMA_EMBEDDING, LLAMA_NORMS, LLAMA_ATTENTION, QK_NORMS(N_HEAD, N_HEAD), LLAMA_FFN,
    LLAMA_END,       {0}};

/* OLMo: its norms have no weights, so the file has no tensors for them. */
static const TensorRule olmo_tensors[] = {
    LLAMA_EMBEDDING, LLAMA_ATTENTION, LLAMA_FFN, OUTPUT("lm_head"), {0}};

static const TensorRule olmo2_tensors[] = {
    LLAMA_EMBEDDING, OUTPUT_NORMS, LLAMA_ATTENTION, QK_NORMS(N_Q, N_KV), LLAMA_FFN, LLAMA_END, {0}};
static const TensorRule exaone4_tensors[] = {
    LLAMA_EMBEDDING, OUTPUT_NORMS, LLAMA_ATTENTION, QK_NORMS(N_HEAD, N_HEAD), LLAMA_FFN,
    LLAMA_END,       {0}};

static const TensorRule glm4_tensors[] = {
    LLAMA_EMBEDDING,
    LLAMA_NORMS,
    LLAMA_ATTENTION,
    NORM("post_attention_norm", "model.layers.%u.post_self_attn_layernorm"),
    FUSED_GATE_UP("model.layers.%u.mlp.gate_up_proj"),
    LINEAR("w_down", "model.layers.%u.mlp.down_proj", N_DIM, N_FFN),
    NORM("post_ffn_norm", "model.layers.%u.post_mlp_layernorm"),
    LLAMA_END,
    {0},
};

static const TensorRule glm_tensors[] = {
    LLAMA_EMBEDDING,
    LLAMA_NORMS,
    LLAMA_ATTENTION,
    FUSED_GATE_UP("model.layers.%u.mlp.gate_up_proj"),
    LINEAR("w_down", "model.layers.%u.mlp.down_proj", N_DIM, N_FFN),
    LLAMA_END,
    {0},
};

static const TensorRule phi3_tensors[] = {
    LLAMA_EMBEDDING,
    LLAMA_NORMS,
    FUSED_QKV("model.layers.%u.self_attn.qkv_proj", 0),
    LINEAR("wo", "model.layers.%u.self_attn.o_proj", N_DIM, N_Q),
    FUSED_GATE_UP("model.layers.%u.mlp.gate_up_proj"),
    LINEAR("w_down", "model.layers.%u.mlp.down_proj", N_DIM, N_FFN),
    LLAMA_END,
    {0},
};

/* StableLM: a parallel block (attention and feed-forward of one input) has no second norm. */
static const TensorRule stablelm_tensors[] = {
    LLAMA_EMBEDDING,
    NORM("attention_norm", "model.layers.%u.input_layernorm"),
    OPTIONAL_NORM("ffn_norm", "model.layers.%u.post_attention_layernorm", N_DIM),
    LLAMA_ATTENTION,
    OPTIONAL("q_norm", "model.layers.%u.self_attn.q_layernorm.norms.%h.weight", N_ONE, N_Q),
    OPTIONAL("k_norm", "model.layers.%u.self_attn.k_layernorm.norms.%h.weight", N_ONE, N_KV),
    LLAMA_FFN,
    LLAMA_END,
    {0},
};

static const TensorRule cohere_tensors[] = {
    LLAMA_EMBEDDING,
    NORM("attention_norm", "model.layers.%u.input_layernorm"),
    LLAMA_ATTENTION,
    OPTIONAL("q_norm", "model.layers.%u.self_attn.q_norm.weight", N_ONE, N_Q),
    OPTIONAL("k_norm", "model.layers.%u.self_attn.k_norm.weight", N_ONE, N_KV),
    LLAMA_FFN,
    LLAMA_END,
    {0},
};

static const TensorRule gemma_tensors[] = {
    LLAMA_EMBEDDING,
    NORM_PLUS_ONE("attention_norm", "model.layers.%u.input_layernorm", N_DIM),
    LLAMA_ATTENTION,
    NORM_PLUS_ONE("ffn_norm", "model.layers.%u.post_attention_layernorm", N_DIM),
    LLAMA_FFN,
    GEMMA_END,
    {0},
};

#define GEMMA2_LAYER                                                                               \
    NORM_PLUS_ONE("attention_norm", "model.layers.%u.input_layernorm", N_DIM), LLAMA_ATTENTION,    \
        NORM_PLUS_ONE("post_attention_norm", "model.layers.%u.post_attention_layernorm", N_DIM),   \
        NORM_PLUS_ONE("ffn_norm", "model.layers.%u.pre_feedforward_layernorm", N_DIM), LLAMA_FFN,  \
        NORM_PLUS_ONE("post_ffn_norm", "model.layers.%u.post_feedforward_layernorm", N_DIM)

/* VaultGemma: Gemma 2 without the norms after attention and feed-forward. */
static const TensorRule vaultgemma_tensors[] = {
    LLAMA_EMBEDDING,
    NORM_PLUS_ONE("attention_norm", "model.layers.%u.input_layernorm", N_DIM),
    LLAMA_ATTENTION,
    NORM_PLUS_ONE("ffn_norm", "model.layers.%u.pre_feedforward_layernorm", N_DIM),
    LLAMA_FFN,
    GEMMA_END,
    {0},
};

static const TensorRule gemma2_tensors[] = {LLAMA_EMBEDDING, GEMMA2_LAYER, GEMMA_END, {0}};
static const TensorRule gemma3_tensors[] = {
    LLAMA_EMBEDDING,
    GEMMA2_LAYER,
    NORM_PLUS_ONE("q_norm", "model.layers.%u.self_attn.q_norm", N_HEAD),
    NORM_PLUS_ONE("k_norm", "model.layers.%u.self_attn.k_norm", N_HEAD),
    GEMMA_END,
    {0},
};

/* The transformer of docs/guide-to-code.md; docs/format.md lists its tensors. A block's norms come
 * after attention and feed-forward. */
static const TensorRule guide_tensors[] = {
    EMBEDDING("token_embedding"),
    LINEAR("wq", "layers.%u.attention.wq", N_Q, N_DIM),
    LINEAR("wk", "layers.%u.attention.wk", N_KV, N_DIM),
    LINEAR("wv", "layers.%u.attention.wv", N_KV, N_DIM),
    LINEAR("wo", "layers.%u.attention.wo", N_DIM, N_Q),
    NORM("attention_norm", "layers.%u.norm1"),
    LINEAR("w_up", "layers.%u.ffn.w1", N_FFN, N_DIM),
    LINEAR("w_down", "layers.%u.ffn.w2", N_DIM, N_FFN),
    NORM("ffn_norm", "layers.%u.norm2"),
    OUTPUT("output"),
    {0},
};

/* ---- Fields that no key gives, and keys that a rule cannot describe ---- */

static Status mistral_finish(const json_t *json, Config *config, Error *error) {
    return family_windows(json, json_value(json, "layer_types"), config, 4096, 0, 0, error);
}

/* Qwen: windows apply only when use_sliding_window is true, from layer max_window_layers on. */
static Status qwen_finish(const json_t *json, Config *config, Error *error) {
    if (!json_flag(json, "use_sliding_window", false)) return family_no_windows(json, error);
    double first = json_number(json, "max_window_layers", 28);
    return family_windows(json, json_value(json, "layer_types"), config, 4096,
                          first > 0 ? (uint32_t)fmin(first, 1e6) : 0, 0, error);
}

static void qwen3_preset(Config *config) {
    config->qk_norm = QK_NORM_HEAD;
}

static void smollm3_preset(Config *config) {
    config->rope_theta = 2e6f;
}

/* The layers with windows are those that layer_types names, whatever use_sliding_window says;
 * without layer_types those without RoPE. */
static Status smollm3_finish(const json_t *json, Config *config, Error *error) {
    if (family_no_rope_layers(json, config, error) != STATUS_OK) return STATUS_FAILED;
    const json_t *types = json_value(json, "layer_types");
    if (!types && !json_flag(json, "use_sliding_window", false)) return STATUS_OK;
    if (family_windows(json, types, config, 0, 0, 0, error) != STATUS_OK) return STATUS_FAILED;
    for (uint32_t i = 0; !types && i < config->n_layers; i++)
        if (config->rope_table[i] == 0) config->window[i] = 0;
    return STATUS_OK;
}

static void olmo_preset(Config *config) {
    config->norm = NORM_LAYER;
    config->norm_eps = 1e-5f;
}

static Status olmo_finish(const json_t *json, Config *config, Error *error) {
    (void)config;
    return family_refuse_zero(json, "clip_qkv", error);
}

static void olmo2_preset(Config *config) {
    config->norm_place = NORM_OUTPUT;
    config->qk_norm = QK_NORM_ALL;
}

static void exaone4_preset(Config *config) {
    config->norm_place = NORM_OUTPUT;
    config->qk_norm = QK_NORM_HEAD;
}

/* EXAONE 4: when some layers have windows, the layers without one have no RoPE. */
static Status exaone4_finish(const json_t *json, Config *config, Error *error) {
    const json_t *pattern = json_value(json, "sliding_window_pattern"); /* 4, or "LLLG" */
    double every = pattern ? json_is_string(pattern) ? (double)json_string_length(pattern)
                                                     : json_number_value(pattern)
                           : 4;
    if (!(every >= 0 && every < 1e6))
        return error_set(error, "config.json: sliding_window_pattern is %g", every);
    if (family_windows(json, json_value(json, "layer_types"), config, 4096, 0, (uint32_t)every,
                       error) != STATUS_OK)
        return STATUS_FAILED;
    const json_t *window = json_object_get(json, "sliding_window");
    for (uint32_t i = 0; i < config->n_layers; i++)
        config->rope_table[i] = config->window[i] == 0 && !json_is_null(window) ? 2 : 0;
    return STATUS_OK;
}

static void interleaved_preset(Config *config) {
    config->rope_pairing = ROPE_INTERLEAVED;
}

static void ernie_preset(Config *config) {
    interleaved_preset(config);
    config->rope_theta = 500000.0f;
}

static void helium_preset(Config *config) {
    interleaved_preset(config);
    config->rope_theta = 100000.0f;
}

static void glm4_preset(Config *config) {
    config->norm_place = NORM_AROUND;
    config->rope_pairing = ROPE_INTERLEAVED;
}

static Status phi3_finish(const json_t *json, Config *config, Error *error) {
    return family_windows(json, NULL, config, 0, 0, 0, error);
}

static void stablelm_preset(Config *config) {
    config->norm = NORM_LAYER;
}

static Status stablelm_finish(const json_t *json, Config *config, Error *error) {
    config->parallel_block = json_flag(json, "use_parallel_residual", false);
    (void)error;
    if (json_flag(json, "qk_layernorm", false)) config->qk_norm = QK_NORM_EACH;
    return STATUS_OK;
}

static void cohere_preset(Config *config) {
    config->norm = NORM_LAYER;
    config->parallel_block = true;
    config->rope_pairing = ROPE_INTERLEAVED;
    config->rope_theta = 500000.0f;
}

static Status cohere_finish(const json_t *json, Config *config, Error *error) {
    (void)error;
    if (json_flag(json, "use_qk_norm", false)) config->qk_norm = QK_NORM_EACH;
    return STATUS_OK;
}

static void cohere2_preset(Config *config) {
    cohere_preset(config);
    config->rope_theta = 10000.0f;
}

/* Cohere 2: only layers with windows have RoPE. */
static Status cohere2_finish(const json_t *json, Config *config, Error *error) {
    uint32_t pattern;
    if (family_pattern(json, 4, &pattern, error) != STATUS_OK ||
        family_windows(json, json_value(json, "layer_types"), config, 4096, 0, pattern, error) !=
            STATUS_OK)
        return STATUS_FAILED;
    for (uint32_t i = 0; i < config->n_layers; i++)
        config->rope_table[i] = config->window[i] ? 0 : 2;
    return STATUS_OK;
}

static Status scale_embeddings(const json_t *json, Config *config, Error *error) {
    (void)json, (void)error;
    config->embedding_scale = (float)sqrt((double)config->dim);
    return STATUS_OK;
}

static Status gemma_finish(const json_t *json, Config *config, Error *error) {
    /* "gelu" in Gemma's first files means the tanh approximation. */
    const char *name = json_text(json, "hidden_act");
    if (name && strcmp(name, "gelu") == 0) config->activation = ACTIVATION_GELU_TANH;
    return scale_embeddings(json, config, error);
}

/* The cap of the logits or scores that a key gives; null means none. */
static float cap(const json_t *json, const char *key, float absent) {
    const json_t *value = json_object_get(json, key);
    return value ? (float)json_number_value(value) : absent;
}

static void gemma2_preset(Config *config) {
    config->norm_place = NORM_AROUND;
}

static Status gemma2_scales(const json_t *json, Config *config, Error *error) {
    double scalar = json_number(json, "query_pre_attn_scalar", 256);
    if (!(scalar > 0)) return error_set(error, "config.json: query_pre_attn_scalar is %g", scalar);
    config->attention_scale = (float)(1.0 / sqrt(scalar));
    return scale_embeddings(json, config, error);
}

static Status gemma2_finish(const json_t *json, Config *config, Error *error) {
    config->attention_softcap = cap(json, "attn_logit_softcapping", 50.0f);
    config->logit_softcap = cap(json, "final_logit_softcapping", 30.0f);
    if (gemma2_scales(json, config, error) != STATUS_OK ||
        family_refuse_zero(json, "attn_logit_softcapping", error) != STATUS_OK ||
        family_refuse_zero(json, "final_logit_softcapping", error) != STATUS_OK)
        return STATUS_FAILED;
    return family_windows(json, json_value(json, "layer_types"), config, 4096, 0, 2, error);
}

static void gemma3_preset(Config *config) {
    gemma2_preset(config);
    config->qk_norm = QK_NORM_HEAD;
    config->rope_theta = 1e6f;
}

static Status gemma3_finish(const json_t *json, Config *config, Error *error) {
    /* attn_logit_softcapping is ignored, as transformers does for Gemma 3. */
    config->logit_softcap = cap(json, "final_logit_softcapping", 0.0f);
    uint32_t pattern;
    if (family_pattern(json, 6, &pattern, error) != STATUS_OK ||
        gemma2_scales(json, config, error) != STATUS_OK ||
        family_refuse_zero(json, "final_logit_softcapping", error) != STATUS_OK ||
        family_windows(json, json_value(json, "layer_types"), config, 4096, 0, pattern, error) !=
            STATUS_OK)
        return STATUS_FAILED;
    for (uint32_t i = 0; i < config->n_layers; i++)
        config->rope_table[i] = config->window[i] ? 1 : 0;
    return STATUS_OK;
}

static void guide_preset(Config *config) {
    config->norm = NORM_LAYER;
    config->norm_place = NORM_AFTER;
    config->final_norm = false;
    config->position = POSITION_SINUSOIDAL;
    config->sinusoid_layout = SINUSOID_INTERLEAVED;
    config->activation = ACTIVATION_RELU;
    config->gated = false;
}

/* A llama with the original transformer's sinusoids instead of RoPE; models/train makes such models
 * to compare the two. */
static void llama_sinusoidal_preset(Config *config) {
    config->position = POSITION_SINUSOIDAL;
    config->sinusoid_layout = SINUSOID_INTERLEAVED;
}

const Family families_llama[] = {
    {"llama", llama_config, llama_tensors, .biases = llama_biases, .bos_id = 1, .eos_id = 2},
    {"llama_sinusoidal", llama_config, llama_tensors, llama_sinusoidal_preset, scale_embeddings,
     .biases = llama_biases, .bos_id = 1, .eos_id = 2},
    {"internlm2", llama_config, internlm2_tensors, .biases = internlm2_biases, .bos_id = 1,
     .eos_id = 2},
    {"mistral", mistral_config, llama_tensors, .finish = mistral_finish, .bos_id = 1, .eos_id = 2},
    {"qwen2", qwen2_config, llama_tensors, .finish = qwen_finish, .biases = qwen2_biases,
     .bos_id = -1, .eos_id = -1},
    {"qwen3", qwen3_config, qwen3_tensors, qwen3_preset, qwen_finish, .biases = attention_biases,
     .bos_id = -1, .eos_id = -1},
    {"smollm3", smollm3_config, llama_tensors, smollm3_preset, smollm3_finish,
     .biases = llama_biases, .tied = true, .bos_id = 128000, .eos_id = 128001},
    {"granite", granite_config, llama_tensors, .finish = family_granite, .biases = llama_biases,
     .bos_id = 1, .eos_id = 2},
    {"olmo", olmo_config, olmo_tensors, olmo_preset, olmo_finish, .biases = attention_biases,
     .bos_id = -1, .eos_id = 50279},
    {"olmo2", olmo2_config, olmo2_tensors, olmo2_preset, .biases = attention_biases, .bos_id = -1,
     .eos_id = 50279},
    {"exaone4", exaone4_config, exaone4_tensors, exaone4_preset, exaone4_finish, .bos_id = 0,
     .eos_id = 2},
    {"glm4", glm_config, glm4_tensors, glm4_preset, .biases = glm_biases, .rope = PARTIAL_ROPE(0.5),
     .bos_id = -1, .eos_id = 151329, .more_eos_ids = {151336, 151338}},
    {"glm", glm_config, glm_tensors, interleaved_preset, .biases = glm_biases,
     .rope = PARTIAL_ROPE(0.5), .bos_id = -1, .eos_id = 151329, .more_eos_ids = {151336, 151338}},
    {"ernie4_5", ernie_config, llama_tensors, ernie_preset, .biases = ernie_biases, .tied = true,
     .bos_id = 1, .eos_id = 2},
    {"helium", helium_config, llama_tensors, helium_preset, .biases = helium_biases, .bos_id = 1,
     .eos_id = 2},
    {"seed_oss", seed_config, llama_tensors, .biases = seed_biases, .bos_id = 0, .eos_id = 2},
    {"phi3", phi3_config, phi3_tensors, .finish = phi3_finish,
     .rope = {.part = "partial_rotary_factor",
              .part_absent = 1,
              .original_context = 4096,
              .yarn_is_longrope = true},
     .bos_id = 1, .eos_id = 32000},
    {"stablelm", stablelm_config, stablelm_tensors, stablelm_preset, stablelm_finish,
     .biases = stablelm_biases,
     .rope = {.part = "partial_rotary_factor", .part_absent = 0.25, .part_is_even = true},
     .bos_id = 0, .eos_id = 0},
    {"cohere", cohere_config, cohere_tensors, cohere_preset, cohere_finish,
     .biases = attention_biases, .norms_have_no_bias = true, .tied = true, .bos_id = 5,
     .eos_id = 255001},
    {"cohere2", cohere_config, cohere_tensors, cohere2_preset, cohere2_finish,
     .biases = attention_biases, .norms_have_no_bias = true, .tied = true, .bos_id = 5,
     .eos_id = 255001},
    {"gemma", gemma_config, gemma_tensors, .finish = gemma_finish, .biases = attention_biases,
     .fixed = gemma_fixed, .tied = true, .bos_id = 2, .eos_id = 1},
    {"gemma2", gemma2_config, gemma2_tensors, gemma2_preset, gemma2_finish,
     .biases = attention_biases, .fixed = gemma_fixed, .tied = true, .bos_id = 2, .eos_id = 1},
    {"vaultgemma", gemma2_config, vaultgemma_tensors, .finish = gemma2_finish,
     .biases = attention_biases, .tied = true, .bos_id = 2, .eos_id = 1},
    {"gemma3_text", gemma3_config, gemma3_tensors, gemma3_preset, gemma3_finish,
     .biases = attention_biases, .fixed = gemma_fixed,
     .rope = {.local_theta = 10000, .local_theta_key = "rope_local_base_freq"}, .tied = true,
     .bos_id = 2, .eos_id = 1},
    {"guide_transformer", guide_config, guide_tensors, guide_preset, scale_embeddings,
     .biases = guide_biases, .bos_id = -1, .eos_id = -1},
    {0},
};
