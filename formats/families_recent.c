/* Relatives of llama since 2025 and a few that came late: one step of the block is their own. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "formats/family_rules.h"
#include "formats/json.h"
#include "formats/xielu.h"

/* ---- Keys ---- */

static const ConfigRule ministral_config[] = {
    SIZE_KEYS(32000, 4096, 14336, 32, 32), LLAMA_KEYS(8, 0, 131072, "rms_norm_eps", 1e-6), {0}};
static const ConfigRule ministral3_config[] = {
    SIZE_KEYS(131072, 4096, 14336, 34, 32), LLAMA_KEYS(8, 128, 262144, "rms_norm_eps", 1e-5), {0}};
static const ConfigRule cwm_config[] = {
    SIZE_KEYS(128256, 6144, 21504, 64, 48), LLAMA_KEYS(8, 128, 131072, "rms_norm_eps", 1e-5), {0}};
static const ConfigRule olmo3_config[] = {
    SIZE_KEYS(50304, 4096, 11008, 32, 32), LLAMA_KEYS(0, 0, 2048, "rms_norm_eps", 1e-5), {0}};
static const ConfigRule hunyuan_config[] = {
    SIZE_KEYS(290943, 4096, 11008, 32, 32), LLAMA_KEYS(0, 0, 2048, "rms_norm_eps", 1e-5), {0}};
static const ConfigRule diffllama_config[] = {
    SIZE_KEYS(32000, 2048, 8192, 16, 32), LLAMA_KEYS(0, 0, 2048, "rms_norm_eps", 1e-5), {0}};
static const ConfigRule iquest_config[] = {
    SIZE_KEYS(76800, 5120, 27648, 80, 40), LLAMA_KEYS(8, 128, 131072, "rms_norm_eps", 1e-5), {0}};
static const ConfigRule internlm3_config[] = {
    SIZE_KEYS(128512, 4096, 10240, 48, 32), LLAMA_KEYS(2, 128, 32768, "rms_norm_eps", 1e-5), {0}};
static const ConfigRule granite_swa_config[] = {
    SIZE_KEYS(100352, 2560, 8192, 24, 20),
    LLAMA_KEYS(4, 0, 8192, "rms_norm_eps", 1e-5),
    GRANITE_KEYS,
    {0},
};
/* attention_multiplier is read by hyperclovax_finish, because null means 1 / sqrt(head_dim). */
static const ConfigRule hyperclovax_config[] = {
    SIZE_KEYS(32000, 4096, 11008, 32, 32),          LLAMA_KEYS(0, 0, 2048, "rms_norm_eps", 1e-6),
    {"embedding_multiplier", "embedding_scale", 1}, {"residual_multiplier", "residual_scale", 1},
    {"logits_scaling", "logit_scale", 1},           {0},
};

/* A feed-forward without a gate. */
#define UNGATED_KEYS(kv_heads, width, positions, epsilon, eps, activation)                         \
    KV_HEADS(kv_heads), HEAD_DIM(width), CONTEXT(positions), {epsilon, "norm_eps", eps}, {         \
        "hidden_act", "activation", activation                                                     \
    }
static const ConfigRule apertus_config[] = {
    SIZE_KEYS(131072, 4096, 14336, 32, 32),
    UNGATED_KEYS(0, 0, 65536, "rms_norm_eps", 1e-5, ACTIVATION_XIELU),
    {0},
};
static const ConfigRule arcee_config[] = {
    SIZE_KEYS(32000, 2560, 18432, 32, 32),
    UNGATED_KEYS(0, 0, 4096, "rms_norm_eps", 1e-5, ACTIVATION_RELU2),
    {0},
};
static const ConfigRule nemotron_config[] = {
    SIZE_KEYS(256000, 6144, 24576, 32, 48),
    UNGATED_KEYS(0, 0, 4096, "norm_eps", 1e-5, ACTIVATION_RELU2),
    {0},
};
static const ConfigRule jais2_config[] = {
    SIZE_KEYS(150272, 3328, 26624, 32, 26),
    UNGATED_KEYS(0, 0, 8192, "layer_norm_eps", 1e-5, ACTIVATION_RELU2),
    {0},
};
static const ConfigRule nanochat_config[] = {
    SIZE_KEYS(50304, 768, 8192, 12, 6),
    UNGATED_KEYS(0, 0, 2048, "rms_norm_eps", 1e-6, ACTIVATION_RELU2),
    {0},
};
static const ConfigRule persimmon_config[] = {
    SIZE_KEYS(262144, 4096, 16384, 36, 64),
    CONTEXT(16384),
    {"layer_norm_eps", "norm_eps", 1e-5},
    {"hidden_act", "activation", ACTIVATION_RELU2},
    {0},
};

static const ConfigRule bitnet_config[] = {
    SIZE_KEYS(128256, 2560, 6912, 30, 20),
    KV_HEADS(5),
    HEAD_DIM(0),
    CONTEXT(2048),
    {"rms_norm_eps", "norm_eps", 1e-5},
    {"hidden_act", "activation", ACTIVATION_RELU2},
    {0},
};

static const FixedKey iquest_fixed[] = {{"clip_qkv", "null"}, {"use_sliding_window", "false"}, {0}};

/* ---- Biases ---- */

static const BiasRule attention_biases[] = {{QKVO, "attention_bias", false}, {0}};
static const BiasRule llama_biases[] = {
    {QKVO, "attention_bias", false}, {GATED, "mlp_bias", false}, {0}};
static const BiasRule cwm_biases[] = {{GATED, "mlp_bias", false}, {0}};
static const BiasRule ungated_biases[] = {
    {QKVO, "attention_bias", false}, {UP_DOWN, "mlp_bias", false}, {0}};
static const BiasRule jais2_biases[] = {
    {QKVO, "attention_bias", true}, {UP_DOWN, "mlp_bias", true}, {0}};
static const BiasRule persimmon_biases[] = {{QKVO UP_DOWN, NULL, true}, {0}};
/* InternLM 3's class knows each switch by two names. */
static const BiasRule internlm3_biases[] = {{QKVO, "qkv_bias", false},
                                            {QKVO, "attention_bias", false},
                                            {GATED, "bias", false},
                                            {GATED, "mlp_bias", false},
                                            {0}};

/* ---- Tensors ---- */

#define UNGATED_FFN                                                                                \
    LINEAR("w_up", FROM_LAYER "mlp.up_proj", N_FFN, N_DIM),                                        \
        LINEAR("w_down", FROM_LAYER "mlp.down_proj", N_DIM, N_FFN)

static const TensorRule llama_tensors[] = {LLAMA_EMBEDDING, LLAMA_NORMS, LLAMA_ATTENTION,
                                           LLAMA_FFN,       LLAMA_END,   {0}};
static const TensorRule olmo3_tensors[] = {
    LLAMA_EMBEDDING, OUTPUT_NORMS, LLAMA_ATTENTION, QK_NORMS(N_Q, N_KV), LLAMA_FFN, LLAMA_END, {0}};
static const TensorRule hunyuan_tensors[] = {
    LLAMA_EMBEDDING, LLAMA_NORMS, LLAMA_ATTENTION, HUNYUAN_NORMS, LLAMA_FFN, LLAMA_END, {0}};
static const TensorRule arcee_tensors[] = {LLAMA_EMBEDDING, LLAMA_NORMS, LLAMA_ATTENTION,
                                           UNGATED_FFN,     LLAMA_END,   {0}};
static const TensorRule granite_swa_tensors[] = {
    LLAMA_EMBEDDING, LLAMA_NORMS, LLAMA_ATTENTION, SINKS, LLAMA_FFN, LLAMA_END, {0}};

static const TensorRule hyperclovax_tensors[] = {
    LLAMA_EMBEDDING, LLAMA_NORMS,
    LLAMA_ATTENTION, OPTIONAL_NORM("post_attention_norm", FROM_LAYER "post_norm1", N_DIM),
    LLAMA_FFN,       OPTIONAL_NORM("post_ffn_norm", FROM_LAYER "post_norm2", N_DIM),
    LLAMA_END,       {0},
};
static const TensorRule apertus_tensors[] = {
    LLAMA_EMBEDDING,
    NORM("attention_norm", FROM_LAYER "attention_layernorm"),
    NORM("ffn_norm", FROM_LAYER "feedforward_layernorm"),
    LLAMA_ATTENTION,
    QK_NORMS(N_HEAD, N_HEAD),
    UNGATED_FFN,
    LLAMA_END,
    {0},
};

/* A layer norm whose weight has the 1 left out. */
#define LAYER_NORM_PLUS_ONE(to, from)                                                              \
    NORM_PLUS_ONE(to, from, N_DIM), OPTIONAL(to ".bias", from ".bias", N_ONE, N_DIM)
static const TensorRule nemotron_tensors[] = {
    LLAMA_EMBEDDING,
    LAYER_NORM_PLUS_ONE("attention_norm", FROM_LAYER "input_layernorm"),
    LAYER_NORM_PLUS_ONE("ffn_norm", FROM_LAYER "post_attention_layernorm"),
    LLAMA_ATTENTION,
    UNGATED_FFN,
    LAYER_NORM_PLUS_ONE("final_norm", "model.norm"),
    OUTPUT("lm_head"),
    {0},
};

/* NanoChat: no norm has weights. */
static const TensorRule nanochat_tensors[] = {
    LLAMA_EMBEDDING,
    LLAMA_ATTENTION,
    LINEAR("w_up", FROM_LAYER "mlp.fc1", N_FFN, N_DIM),
    LINEAR("w_down", FROM_LAYER "mlp.fc2", N_DIM, N_FFN),
    OUTPUT("lm_head"),
    {0},
};
static const TensorRule persimmon_tensors[] = {
    LLAMA_EMBEDDING,
    LLAMA_NORMS,
    GROUPED_QKV(FROM_LAYER "self_attn.query_key_value"),
    LINEAR("wo", FROM_LAYER "self_attn.dense", N_DIM, N_Q),
    OPTIONAL_NORM("q_norm", FROM_LAYER "self_attn.q_layernorm", N_HEAD),
    OPTIONAL_NORM("k_norm", FROM_LAYER "self_attn.k_layernorm", N_HEAD),
    LINEAR("w_up", FROM_LAYER "mlp.dense_h_to_4h", N_FFN, N_DIM),
    LINEAR("w_down", FROM_LAYER "mlp.dense_4h_to_h", N_DIM, N_FFN),
    NORM("final_norm", "model.final_layernorm"),
    OUTPUT("lm_head"),
    {0},
};

static const TensorRule bitnet_tensors[] = {
    LLAMA_EMBEDDING, LLAMA_NORMS,
    LLAMA_ATTENTION, NORM_OF("attention_inner_norm", FROM_LAYER "self_attn.attn_sub_norm", N_Q),
    LLAMA_FFN,       NORM_OF("ffn_inner_norm", FROM_LAYER "mlp.ffn_sub_norm", N_FFN),
    LLAMA_END,       {0},
};

/* ---- Fields that no key gives, and keys that a rule cannot describe ---- */

static Status ministral_finish(const json_t *json, Config *config, Error *error) {
    return family_windows(json, json_value(json, "layer_types"), config, 4096, 0, 0, error);
}

/* Ministral 3's RoPE where config.json has no parameters. */
#define MINISTRAL3_ROPE                                                                            \
    {                                                                                              \
        .absent = "{\"type\": \"yarn\", \"rope_theta\": 1000000.0, \"factor\": 16.0, "             \
                  "\"original_max_position_embeddings\": 16384, \"beta_fast\": 32.0, "             \
                  "\"beta_slow\": 1.0, \"mscale_all_dim\": 1.0, \"mscale\": 1.0, "                 \
                  "\"llama_4_scaling_beta\": 0.1}"                                                 \
    }

static Status ministral3_finish(const json_t *json, Config *config, Error *error) {
    const RopeKeys rope = MINISTRAL3_ROPE;
    if (family_windows(json, NULL, config, 0, 0, 0, error) != STATUS_OK ||
        family_query_scaling(json, &rope, config, error) != STATUS_OK)
        return STATUS_FAILED;
    return STATUS_OK;
}

static void olmo3_preset(Config *config) {
    config->norm_place = NORM_OUTPUT;
    config->qk_norm = QK_NORM_ALL;
    config->rope_theta = 500000.0f;
}

static Status olmo3_finish(const json_t *json, Config *config, Error *error) {
    if (family_windows(json, json_value(json, "layer_types"), config, 4096, 0, 4, error) !=
        STATUS_OK)
        return STATUS_FAILED;
    const json_t *types = json_value(json, "layer_types");
    if (types) family_local_tables(types, config);
    for (uint32_t i = 0; !types && i < config->n_layers; i++)
        config->rope_table[i] = (i + 1) % 4 != 0 ? 1 : 0;
    return STATUS_OK;
}

static void hunyuan_preset(Config *config) {
    config->qk_norm = QK_NORM_HEAD;
    config->qk_norm_after_rope = true;
}

static Status internlm3_finish(const json_t *json, Config *config, Error *error) {
    (void)config;
    bool attention = json_flag(json, "qkv_bias", false) || json_flag(json, "attention_bias", false);
    if (attention == (json_flag(json, "bias", false) || json_flag(json, "mlp_bias", false)))
        return STATUS_OK;
    return error_set(error, "config.json: qkv_bias is not bias, which this program cannot compute");
}

static Status granite_swa_finish(const json_t *json, Config *config, Error *error) {
    if (family_granite(json, config, error) != STATUS_OK) return STATUS_FAILED;
    return family_granite_windows(json, config, error);
}

static Status hyperclovax_finish(const json_t *json, Config *config, Error *error) {
    (void)error;
    if (json_flag(json, "use_post_norm", true)) config->norm_place = NORM_AROUND;
    config->attention_scale =
        (float)json_number(json, "attention_multiplier", (double)config->attention_scale);
    return STATUS_OK;
}

static void ungated_preset(Config *config) {
    config->gated = false;
}

static void apertus_preset(Config *config) {
    config->gated = false;
    config->qk_norm = QK_NORM_HEAD;
    config->rope_theta = 12e6f;
}

#define CWM_ROPE                                                                                   \
    {                                                                                              \
        .absent = "{\"rope_type\": \"llama3\", \"rope_theta\": 1000000.0, \"factor\": 16.0, "      \
                  "\"original_max_position_embeddings\": 8192, \"low_freq_factor\": 1.0, "         \
                  "\"high_freq_factor\": 4.0}"                                                     \
    }

static void cwm_preset(Config *config) {
    config->rope_theta = 1e6f;
}

/* The first layer and every fourth from there have full attention, unless a list says which. */
static Status cwm_finish(const json_t *json, Config *config, Error *error) {
    const json_t *types = json_value(json, "layer_types");
    if (family_windows(json, types, config, 8192, 0, 0, error) != STATUS_OK) return STATUS_FAILED;
    for (uint32_t i = 0; !types && i < config->n_layers; i += 4) config->window[i] = 0;
    return STATUS_OK;
}

#define APERTUS_ROPE                                                                               \
    {                                                                                              \
        .absent = "{\"rope_type\": \"llama3\", \"rope_theta\": 12000000.0, \"factor\": 8.0, "      \
                  "\"original_max_position_embeddings\": 8192, \"low_freq_factor\": 1.0, "         \
                  "\"high_freq_factor\": 4.0}"                                                     \
    }

/* Reads one number of layer's xIELU; `absent` where the file lacks it. */
static Status read_parameter(const RuleContext *c, uint32_t layer, const char *name, double absent,
                             double *out, Error *error) {
    char from[128];
    float *value = NULL;
    *out = absent;
    snprintf(from, sizeof from, FROM_LAYER "mlp.act_fn.%s", layer, name);
    if (!isnan(absent) && !rules_find(c, from)) return STATUS_OK;
    if (rules_read(c, from, 1, 1, &value, error) != STATUS_OK) return STATUS_FAILED;
    *out = (double)*value;
    free(value);
    return STATUS_OK;
}

/* Adds the parameters of each layer's xIELU. */
static Status apertus_more(const RuleContext *c, const json_t *json, Error *error) {
    (void)json;
    const Config *config = &c->source->config;
    for (uint32_t i = 0; config->activation == ACTIVATION_XIELU && i < config->n_layers; i++) {
        Xielu xielu;
        if (read_parameter(c, i, "alpha_p", NAN, &xielu.alpha_p, error) != STATUS_OK ||
            read_parameter(c, i, "alpha_n", NAN, &xielu.alpha_n, error) != STATUS_OK ||
            read_parameter(c, i, "beta", 0.5, &xielu.beta, error) != STATUS_OK ||
            read_parameter(c, i, "eps", -1e-6, &xielu.eps, error) != STATUS_OK ||
            xielu_add(c->source, i, &xielu, error) != STATUS_OK)
            return STATUS_FAILED;
    }
    return STATUS_OK;
}

static void layer_norms_preset(Config *config) {
    config->gated = false;
    config->norm = NORM_LAYER;
}

static void nanochat_preset(Config *config) {
    config->gated = false;
    hunyuan_preset(config);
}

static Status nanochat_finish(const json_t *json, Config *config, Error *error) {
    const json_t *cap = json_object_get(json, "final_logit_softcapping"); /* null: none */
    config->logit_softcap = cap ? (float)json_number_value(cap) : 15.0f;
    return family_refuse_zero(json, "final_logit_softcapping", error);
}

/* Adds the norm of the embeddings, which has no weights either. */
static Status nanochat_more(const RuleContext *c, const json_t *json, Error *error) {
    (void)json;
    return family_add_ones(c, "embedding_norm", c->source->config.dim, error);
}

static Status persimmon_finish(const json_t *json, Config *config, Error *error) {
    (void)error;
    if (json_flag(json, "qk_layernorm", true)) config->qk_norm = QK_NORM_HEAD;
    return STATUS_OK;
}

static void bitnet_preset(Config *config) {
    config->rope_theta = 500000.0f;
}

/* Quantized, the inputs of all products but the output head's are rounded to 8 bits. */
static Status bitnet_finish(const json_t *json, Config *config, Error *error) {
    const json_t *quantization = json_value(json, "quantization_config");
    config->round_inputs = quantization != NULL;
    if (family_refuse(quantization, "quantization_mode", "\"offline\"", error) != STATUS_OK)
        return STATUS_FAILED;
    return family_refuse(quantization, "use_rms_norm", "false", error);
}

static Status diffllama_finish(const json_t *json, Config *config, Error *error) {
    (void)json, (void)error;
    for (uint32_t l = 0; l < config->n_layers && l < CONFIG_MAX_LAYERS; l++)
        config->layer_kind[l] = LAYER_DIFFERENCE;
    return STATUS_OK;
}

/* Reads the vectors lambda_q and lambda_k of this number, and computes exp(lambda_q . lambda_k). */
static Status read_lambda(const RuleContext *c, uint32_t layer, int number, double *out,
                          Error *error) {
    size_t n = config_heads(&c->source->config, layer).head_dim;
    float *vectors[2] = {NULL, NULL};
    Status status = STATUS_OK;
    double dot = 0.0;
    for (int i = 0; status == STATUS_OK && i < 2; i++) {
        char name[96];
        snprintf(name, sizeof name, "model.layers.%u.self_attn.lambda_%c%d", layer, "qk"[i],
                 number);
        status = rules_read(c, name, 1, n, &vectors[i], error);
    }
    for (size_t i = 0; status == STATUS_OK && i < n; i++)
        dot += (double)vectors[0][i] * (double)vectors[1][i];
    free(vectors[0]);
    free(vectors[1]);
    *out = exp(dot);
    return status;
}

/* Adds what differential attention needs beside its matrices (layers/differential.h). */
static Status diffllama_more(const RuleContext *c, const json_t *json, Error *error) {
    (void)json;
    const Config *config = &c->source->config;
    for (uint32_t l = 0; l < config->n_layers; l++) {
        double first, second, start = 0.8 - 0.6 * exp(-0.3 * l);
        size_t width = 2 * (size_t)config_heads(config, l).head_dim;
        char name[64];
        if (read_lambda(c, l, 1, &first, error) != STATUS_OK ||
            read_lambda(c, l, 2, &second, error) != STATUS_OK)
            return STATUS_FAILED;
        float *factor = malloc(sizeof *factor), *norm = malloc(width * sizeof *norm);
        if (factor) *factor = (float)((double)(float)first - (double)(float)second + start);
        for (size_t i = 0; norm && i < width; i++) norm[i] = (float)(1.0 - start);
        snprintf(name, sizeof name, "layers.%u.differential_factor", l);
        if (source_add_values(c->source, name, 1, 1, factor, error) != STATUS_OK) {
            free(norm);
            return STATUS_FAILED;
        }
        snprintf(name, sizeof name, "layers.%u.differential_norm", l);
        if (source_add_values(c->source, name, 1, width, norm, error) != STATUS_OK)
            return STATUS_FAILED;
    }
    return STATUS_OK;
}

const Family families_recent[] = {
    {"bitnet", bitnet_config, bitnet_tensors, bitnet_preset, bitnet_finish,
     .biases = attention_biases, .bos_id = 128000, .eos_id = 128001},
    {"ministral", ministral_config, llama_tensors, .finish = ministral_finish, .bos_id = 1,
     .eos_id = 2},
    {"ministral3", ministral3_config, llama_tensors, .finish = ministral3_finish,
     .rope = MINISTRAL3_ROPE, .bos_id = 1, .eos_id = 2},
    {"olmo3", olmo3_config, olmo3_tensors, olmo3_preset, olmo3_finish, .biases = attention_biases,
     .rope = {.local_theta = 500000.0, .local_theta_key = ""}, .bos_id = -1, .eos_id = 50279},
    {"hunyuan_v1_dense", hunyuan_config, hunyuan_tensors, hunyuan_preset,
     .biases = attention_biases, .rope = {.has_alpha = true}, .bos_id = 1, .eos_id = 2},
    {"diffllama", diffllama_config, llama_tensors, .finish = diffllama_finish,
     .more = diffllama_more, .biases = attention_biases, .bos_id = 1, .eos_id = 2},
    {"iquestcoder", iquest_config, llama_tensors, .biases = llama_biases, .fixed = iquest_fixed,
     .bos_id = 1, .eos_id = 2},
    {"internlm3", internlm3_config, llama_tensors, .finish = internlm3_finish,
     .biases = internlm3_biases, .bos_id = 1, .eos_id = 2},
    {"granite_swa", granite_swa_config, granite_swa_tensors, .finish = granite_swa_finish,
     .biases = llama_biases, .rope = {.layer_thetas = true}, .tied = true, .bos_id = 100257,
     .eos_id = 100257},
    {"hyperclovax", hyperclovax_config, hyperclovax_tensors, .finish = hyperclovax_finish,
     .biases = llama_biases, .bos_id = 1, .eos_id = 2},
    {"cwm", cwm_config, llama_tensors, cwm_preset, cwm_finish, .biases = cwm_biases,
     .rope = CWM_ROPE, .bos_id = 128000, .eos_id = 128001, .more_eos_ids = {128008, 128009}},
    {"apertus", apertus_config, apertus_tensors, apertus_preset, .more = apertus_more,
     .biases = attention_biases, .rope = APERTUS_ROPE, .bos_id = 1, .eos_id = 2},
    {"arcee", arcee_config, arcee_tensors, ungated_preset, .biases = ungated_biases,
     .bos_id = 128000, .eos_id = 128001},
    {"nemotron", nemotron_config, nemotron_tensors, layer_norms_preset, .biases = ungated_biases,
     .rope = PARTIAL_ROPE(0.5), .bos_id = 2, .eos_id = 3},
    {"jais2", jais2_config, arcee_tensors, layer_norms_preset, .biases = jais2_biases, .bos_id = 0,
     .eos_id = 150024},
    {"nanochat", nanochat_config, nanochat_tensors, nanochat_preset, nanochat_finish,
     .more = nanochat_more, .biases = attention_biases, .rope = {.reversed = true}, .bos_id = 0,
     .eos_id = 1},
    {"persimmon", persimmon_config, persimmon_tensors, layer_norms_preset, persimmon_finish,
     .biases = persimmon_biases, .rope = PARTIAL_ROPE(0.5), .bos_id = 1, .eos_id = 2},
    {0},
};
