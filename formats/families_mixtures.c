/* Mixtures of experts since 2024 whose routing is a softmax, and Llama 4. */
#include <string.h>

#include "formats/family_rules.h"
#include "formats/json.h"

/* ---- Keys ---- */

static const ConfigRule llama4_config[] = {
    SIZE_KEYS(202048, 5120, 8192, 48, 40),
    LLAMA_KEYS(8, 128, 131072, "rms_norm_eps", 1e-5),
    EXPERT_KEYS("num_local_experts", 16, 1, "intermediate_size", 8192),
    {"intermediate_size", "shared_ffn_dim", 8192},
    {"intermediate_size_mlp", "ffn_dim", 16384},
    {0},
};
static const ConfigRule qwen3_vl_config[] = {
    SIZE_KEYS(151936, 2048, 5632, 24, 16),
    LLAMA_KEYS(16, 0, 128000, "rms_norm_eps", 1e-6),
    EXPERT_KEYS(BOTH_NAMES, 60, 4, "moe_intermediate_size", 1408),
    {0},
};
static const ConfigRule hunyuan_config[] = {
    SIZE_KEYS(290943, 4096, 11008, 32, 32),
    LLAMA_KEYS(0, 0, 2048, "rms_norm_eps", 1e-5),
    {"num_experts|num_local_experts", "n_experts", 1},
    {"intermediate_size", "expert_ffn_dim", 11008},
    {"intermediate_size", "shared_ffn_dim", 11008},
    {0},
};
#define GRANITE_MOE                                                                                \
    SIZE_KEYS(32000, 4096, 11008, 32, 32), LLAMA_KEYS(0, 0, 2048, "rms_norm_eps", 1e-6),           \
        EXPERT_KEYS("num_local_experts", 8, 2, "intermediate_size", 11008),                        \
        {"shared_intermediate_size", "shared_ffn_dim", 0}, GRANITE_KEYS, {                         \
        0                                                                                          \
    }
static const ConfigRule granite_config[] = {GRANITE_MOE};
static const ConfigRule flex_olmo_config[] = {
    SIZE_KEYS(100352, 4096, 11008, 32, 32),
    LLAMA_KEYS(0, 0, 4096, "rms_norm_eps", 1e-6),
    EXPERT_KEYS(BOTH_NAMES, 7, 5, "intermediate_size", 11008),
    {0},
};
static const ConfigRule mellum_config[] = {
    SIZE_KEYS(98304, 2304, 7168, 28, 32),
    LLAMA_KEYS(4, 128, 131072, "rms_norm_eps", 1e-6),
    EXPERT_KEYS(BOTH_NAMES, 64, 8, "moe_intermediate_size", 896),
    {0},
};
/* DBRX: the rest of its keys are in attn_config and ffn_config (dbrx_finish). */
static const ConfigRule dbrx_config[] = {
    {"vocab_size", "vocab_size", 32000},
    {"d_model|hidden_size", "dim", 2048},
    {"n_layers|num_hidden_layers", "n_layers", 24},
    {"n_heads|num_attention_heads", "n_heads", 16},
    {"max_seq_len|max_position_embeddings", "context", 2048},
    {0},
};

/* ---- Biases ---- */

static const BiasRule attention_biases[] = {{QKVO, "attention_bias", false}, {0}};

/* ---- Tensors ---- */

/* A layer's feed-forward, which layers with experts do not have. */
#define OPTIONAL_FFN(from)                                                                         \
    MAYBE("w_gate", from ".gate_proj", N_FFN, N_DIM),                                              \
        MAYBE("w_up", from ".up_proj", N_FFN, N_DIM),                                              \
        MAYBE("w_down", from ".down_proj", N_DIM, N_FFN)
#define SHARED_EXPERT(from)                                                                        \
    MAYBE("shared.w_gate", from ".gate_proj", N_SHARED_FFN, N_DIM),                                \
        MAYBE("shared.w_up", from ".up_proj", N_SHARED_FFN, N_DIM),                                \
        MAYBE("shared.w_down", from ".down_proj", N_DIM, N_SHARED_FFN)
#define SEPARATE_EXPERTS(from)                                                                     \
    MAYBE("experts.%u.w_gate", from ".%u.gate_proj", N_EXPERT_FFN, N_DIM),                         \
        MAYBE("experts.%u.w_up", from ".%u.up_proj", N_EXPERT_FFN, N_DIM),                         \
        MAYBE("experts.%u.w_down", from ".%u.down_proj", N_DIM, N_EXPERT_FFN)

#define BOTH_STACKED(from, flags)                                                                  \
    STACKED_EXPERTS(from ".gate_up_proj", from ".down_proj", (flags) | RULE_OPTIONAL)

static const TensorRule llama4_tensors[] = {
    LLAMA_EMBEDDING,
    LLAMA_NORMS,
    LLAMA_ATTENTION,
    OPTIONAL_FFN("feed_forward"),
    MAYBE("router", "feed_forward.router", N_EXPERTS, N_DIM),
    BOTH_STACKED("feed_forward.experts", RULE_TRANSPOSED),
    SHARED_EXPERT("feed_forward.shared_expert"),
    LLAMA_END,
    {0},
};
static const TensorRule qwen3_vl_tensors[] = {
    LLAMA_EMBEDDING,
    LLAMA_NORMS,
    LLAMA_ATTENTION,
    QK_NORMS(N_HEAD, N_HEAD),
    OPTIONAL_FFN("mlp"),
    MAYBE("router", "mlp.gate", N_EXPERTS, N_DIM),
    BOTH_STACKED("mlp.experts", RULE_EITHER_WAY), /* the hub's files hold inputs x outputs */
    LLAMA_END,
    {0},
};
static const TensorRule mellum_tensors[] = {
    LLAMA_EMBEDDING, LLAMA_NORMS, LLAMA_ATTENTION, QK_NORMS(N_HEAD, N_HEAD), DENSE_OR_EXPERTS,
    LLAMA_END,       {0},
};
static const TensorRule flex_olmo_tensors[] = {
    LLAMA_EMBEDDING,
    OUTPUT_NORMS,
    LLAMA_ATTENTION,
    QK_NORMS(N_Q, N_KV),
    LINEAR("router", FROM_LAYER "mlp.gate", N_EXPERTS, N_DIM),
    SEPARATE_EXPERTS("mlp.experts"),
    LLAMA_END,
    {0},
};
static const TensorRule hunyuan_tensors[] = {
    LLAMA_EMBEDDING,
    LLAMA_NORMS,
    LLAMA_ATTENTION,
    HUNYUAN_NORMS,
    LINEAR("router", FROM_LAYER "mlp.gate.wg", N_EXPERTS, N_DIM),
    SEPARATE_EXPERTS("mlp.experts"),
    SHARED_EXPERT("mlp.shared_mlp"),
    LLAMA_END,
    {0},
};

/* Granite: gate and up are stacked, of the shared expert as well. */
#define GRANITE_SHARED(to, skip)                                                                   \
    STACKED(to, "shared_mlp.input_linear.weight", N_SHARED_FFN, N_DIM, RULE_OPTIONAL, {skip},      \
            {N_SHARED_FFN, N_SHARED_FFN})
#define GRANITE_SHARED_EXPERT                                                                      \
    GRANITE_SHARED("shared.w_gate", N_NONE), GRANITE_SHARED("shared.w_up", N_SHARED_FFN),          \
        MAYBE("shared.w_down", "shared_mlp.output_linear", N_DIM, N_SHARED_FFN)
static const TensorRule granite_tensors[] = {
    LLAMA_EMBEDDING,
    LLAMA_NORMS,
    LLAMA_ATTENTION,
    LINEAR("router", FROM_LAYER "block_sparse_moe.router.layer", N_EXPERTS, N_DIM),
    STACKED_EXPERTS("block_sparse_moe.input_linear.weight", "block_sparse_moe.output_linear.weight",
                    0),
    GRANITE_SHARED_EXPERT,
    LLAMA_END,
    {0},
};
static const TensorRule granite_swa_tensors[] = {
    LLAMA_EMBEDDING,
    LLAMA_NORMS,
    LLAMA_ATTENTION,
    SINKS,
    LINEAR("router", FROM_LAYER "block_sparse_moe.router", N_EXPERTS, N_DIM),
    STACKED_EXPERTS("block_sparse_moe.experts.gate_up_proj", "block_sparse_moe.experts.down_proj",
                    0),
    GRANITE_SHARED_EXPERT,
    LLAMA_END,
    {0},
};

#define FROM_BLOCK "transformer.blocks.%u."
#define DBRX_EXPERTS(to, from, rows, cols, flags)                                                  \
    {                                                                                              \
        to, FROM_BLOCK "ffn.experts.mlp." from, rows, cols, flags, {0}, {                          \
            0                                                                                      \
        }                                                                                          \
    }
static const TensorRule dbrx_tensors[] = {
    EMBEDDING("transformer.wte"),
    NORM("attention_norm", FROM_BLOCK "norm_attn_norm.norm_1"),
    FUSED_QKV(FROM_BLOCK "norm_attn_norm.attn.Wqkv", 0),
    LINEAR("wo", FROM_BLOCK "norm_attn_norm.attn.out_proj", N_DIM, N_Q),
    NORM("ffn_norm", FROM_BLOCK "norm_attn_norm.norm_2"),
    LINEAR("router", FROM_BLOCK "ffn.router.layer", N_EXPERTS, N_DIM),
    DBRX_EXPERTS("experts.%u.w_gate", "w1", N_EXPERT_FFN, N_DIM, 0),
    DBRX_EXPERTS("experts.%u.w_up", "v1", N_EXPERT_FFN, N_DIM, 0),
    DBRX_EXPERTS("experts.%u.w_down", "w2", N_DIM, N_EXPERT_FFN, RULE_TRANSPOSED),
    NORM("final_norm", "transformer.norm_f"),
    OUTPUT("lm_head"),
    {0},
};

/* ---- Fields that no key gives, and keys that a rule cannot describe ---- */

static void llama4_preset(Config *config) {
    config->router = ROUTER_SIGMOID_SCORES;
    config->share_on_input = true;
    config->rope_pairing = ROPE_INTERLEAVED;
    config->rope_theta = 500000.0f;
}

/* Queries of layers without RoPE grow with the position (attn_temperature_tuning; an integer in
 * the first files). */
static Status llama4_temperature(const json_t *json, Config *config, Error *error) {
    const json_t *tunes = json_value(json, "attn_temperature_tuning");
    if (tunes && !json_is_true(tunes) && json_number_value(tunes) == 0.0) return STATUS_OK;
    double floor_scale = json_number(json, "floor_scale", 8192);
    if (!(floor_scale >= 1 && floor_scale <= 1 << 28 && floor_scale == floor(floor_scale)))
        return error_set(error, "config.json: floor_scale is %g", floor_scale);
    config->query_scaling = (float)json_number(json, "attn_scale", 0.1);
    config->query_scaling_floor = (uint32_t)floor_scale;
    config->query_scaling_unrotated = true;
    return STATUS_OK;
}

/* Sets each layer's chunk from layer_types; without it the layers with RoPE have chunks. */
static Status llama4_chunks(const json_t *json, Config *config, Error *error) {
    const json_t *types = json_value(json, "layer_types");
    double chunk = json_number(json, "attention_chunk_size", 8192);
    if (types && json_array_size(types) < config->n_layers)
        return error_set(error, "config.json: layer_types is not a list of %u layers",
                         config->n_layers);
    for (uint32_t i = 0; i < config->n_layers; i++) {
        bool is_chunked = config->rope_table[i] == 0;
        const char *type = json_string_value(json_array_get(types, i));
        if (types) {
            is_chunked = type && strcmp(type, "chunked_attention") == 0;
            if (!is_chunked && (!type || strcmp(type, "full_attention") != 0))
                return error_set(error, "config.json: layer type '%.40s' is not known",
                                 type ? type : "(no text)");
        }
        if (is_chunked && !(chunk >= 1 && chunk <= 1 << 28 && chunk == floor(chunk)))
            return error_set(error, "config.json: attention_chunk_size is %g", chunk);
        config->chunk[i] = is_chunked ? (uint32_t)chunk : 0;
    }
    return STATUS_OK;
}

static Status llama4_finish(const json_t *json, Config *config, Error *error) {
    if (json_is_null(json_object_get(json, "attention_chunk_size")))
        return error_set(error, "config.json: attention_chunk_size is null");
    if (json_flag(json, "use_qk_norm", true)) config->qk_norm = QK_NORM_HEAD;
    config->qk_norm_after_rope = true;
    if (family_no_rope_layers(json, config, error) != STATUS_OK ||
        llama4_temperature(json, config, error) != STATUS_OK)
        return STATUS_FAILED;
    return llama4_chunks(json, config, error);
}

static void qwen3_vl_preset(Config *config) {
    config->qk_norm = QK_NORM_HEAD;
    config->router = ROUTER_SOFTMAX_CHOSEN;
    config->rope_theta = 500000.0f;
}

static void hunyuan_preset(Config *config) {
    config->qk_norm = QK_NORM_HEAD;
    config->qk_norm_after_rope = true;
    config->router = ROUTER_SOFTMAX_CHOSEN;
}

/* moe_topk is a number, or a list with the same number for each layer. */
static Status hunyuan_finish(const json_t *json, Config *config, Error *error) {
    const json_t *used = json_value(json, "moe_topk");
    if (!used) used = json_value(json, "num_experts_per_tok");
    double first = json_number_value(json_is_array(used) ? json_array_get(used, 0) : used);
    if (!used) first = 1;
    for (size_t i = 0; i < json_array_size(used); i++)
        if (json_number_value(json_array_get(used, i)) != first)
            return error_set(error, "config.json: moe_topk differs by layer, which this program "
                                    "cannot compute");
    if (!(first >= 1 && first <= CONFIG_MAX_EXPERTS && first == floor(first)))
        return error_set(error, "config.json: moe_topk is %g", first);
    config->n_experts_used = (uint32_t)first;
    return STATUS_OK;
}

static void granite_preset(Config *config) {
    config->router = ROUTER_SOFTMAX_CHOSEN;
}

static Status granite_swa_finish(const json_t *json, Config *config, Error *error) {
    if (family_granite(json, config, error) != STATUS_OK) return STATUS_FAILED;
    return family_granite_windows(json, config, error);
}

static void flex_olmo_preset(Config *config) {
    config->norm_place = NORM_OUTPUT;
    config->qk_norm = QK_NORM_ALL;
    config->rope_theta = 500000.0f;
}

static Status normalized_finish(const json_t *json, Config *config, Error *error) {
    (void)error;
    if (json_flag(json, "norm_topk_prob", false)) config->router = ROUTER_SOFTMAX_CHOSEN;
    return STATUS_OK;
}

static void mellum_preset(Config *config) {
    config->qk_norm = QK_NORM_HEAD;
    config->rope_theta = 500000.0f;
}

static Status mellum_finish(const json_t *json, Config *config, Error *error) {
    const json_t *types = json_value(json, "layer_types");
    if (json_flag(json, "norm_topk_prob", true)) config->router = ROUTER_SOFTMAX_CHOSEN;
    if (!types) return STATUS_OK;
    if (family_windows(json, types, config, 1024, 0, 0, error) != STATUS_OK) return STATUS_FAILED;
    family_local_tables(types, config);
    return STATUS_OK;
}

static void dbrx_preset(Config *config) {
    config->norm = NORM_LAYER;
    config->ffn_dim = 1; /* no layer has a feed-forward of its own */
}

/* Reads a whole number of the object, at least 1. */
static Status dbrx_size(const json_t *object, const char *key, double absent, uint32_t *out,
                        Error *error) {
    double value = json_number(object, key, absent);
    if (!(value >= 1 && value <= 1 << 20 && value == floor(value)))
        return error_set(error, "config.json: %s is %g", key, value);
    *out = (uint32_t)value;
    return STATUS_OK;
}

static Status dbrx_finish(const json_t *json, Config *config, Error *error) {
    const json_t *attention = json_value(json, "attn_config"),
                 *ffn = json_value(json, "ffn_config");
    const json_t *act = json_value(ffn, "ffn_act_fn");
    if (dbrx_size(attention, "kv_n_heads", 1, &config->n_kv_heads, error) != STATUS_OK ||
        dbrx_size(ffn, "ffn_hidden_size", 3584, &config->expert_ffn_dim, error) != STATUS_OK ||
        dbrx_size(ffn, "moe_num_experts", 4, &config->n_experts, error) != STATUS_OK ||
        dbrx_size(ffn, "moe_top_k", 1, &config->n_experts_used, error) != STATUS_OK ||
        family_refuse(ffn, "moe_normalize_expert_weights", "1.0", error) != STATUS_OK ||
        family_refuse(act, "name", "\"silu\"", error) != STATUS_OK ||
        family_refuse_zero(attention, "clip_qkv", error) != STATUS_OK)
        return STATUS_FAILED;
    bool is_normalized = !json_is_null(json_object_get(ffn, "moe_normalize_expert_weights")) ||
                         !json_object_get(ffn, "moe_normalize_expert_weights");
    config->router = is_normalized ? ROUTER_SOFTMAX_CHOSEN : ROUTER_SOFTMAX;
    config->qkv_clip = (float)json_number(attention, "clip_qkv", 0);
    config->rope_theta = (float)json_number(attention, "rope_theta", 10000);
    return STATUS_OK;
}

const Family families_mixtures[] = {
    {"llama4_text", llama4_config, llama4_tensors, llama4_preset, llama4_finish,
     .biases = attention_biases, .bos_id = 1, .eos_id = 2},
    {"qwen3_vl_moe_text", qwen3_vl_config, qwen3_vl_tensors, qwen3_vl_preset,
     .biases = attention_biases, .rope = {.has_sections = true}, .tied = true, .bos_id = -1,
     .eos_id = -1},
    {"hunyuan_v1_moe", hunyuan_config, hunyuan_tensors, hunyuan_preset, hunyuan_finish,
     .biases = attention_biases, .rope = {.has_alpha = true}, .bos_id = 1, .eos_id = 2},
    {"granitemoeshared", granite_config, granite_tensors, granite_preset, family_granite,
     .biases = attention_biases, .bos_id = 1, .eos_id = 2},
    {"granitemoe_swa", granite_config, granite_swa_tensors, granite_preset, granite_swa_finish,
     .biases = attention_biases, .rope = {.layer_thetas = true}, .bos_id = 1, .eos_id = 2},
    {"flex_olmo", flex_olmo_config, flex_olmo_tensors, flex_olmo_preset, normalized_finish,
     .biases = attention_biases, .bos_id = -1, .eos_id = 100257},
    {"mellum", mellum_config, mellum_tensors, mellum_preset, mellum_finish,
     .biases = attention_biases,
     .rope = {.part = "partial_rotary_factor",
              .part_absent = 1,
              .local_theta = 10000.0,
              .local_theta_key = ""},
     .bos_id = -1, .eos_id = -1},
    {"dbrx", dbrx_config, dbrx_tensors, dbrx_preset, dbrx_finish, .norms_have_no_bias = true,
     .bos_id = -1, .eos_id = -1},
    {0},
};
