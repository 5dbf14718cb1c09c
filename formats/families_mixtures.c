/* Mixtures of experts since 2024 whose routing is a softmax, and Llama 4. */
#include <stdlib.h>
#include <string.h>

#include "formats/family_rules.h"
#include "formats/gate_limits.h"
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
static const ConfigRule qwen3_omni_config[] = {
    SIZE_KEYS(3584, 2048, 18944, 28, 28),
    LLAMA_KEYS(4, 0, 32768, "rms_norm_eps", 1e-6),
    EXPERT_KEYS(BOTH_NAMES, 128, 8, "moe_intermediate_size", 768),
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
/* Step 3.5: where a key has two names, the older one decides, as in transformers. */
static const ConfigRule step_config[] = {
    SIZE_KEYS(128815, 4096, 11264, 45, 64),
    {"num_attention_groups|num_key_value_heads", "n_kv_heads", 8},
    HEAD_DIM(128),
    CONTEXT(128000),
    {"rms_norm_eps", "norm_eps", 1e-5},
    {"moe_num_experts|n_routed_experts", "n_experts", 288},
    {"moe_top_k|num_experts_per_tok", "n_experts_used", 8},
    {"moe_intermediate_size", "expert_ffn_dim", 1280},
    {"share_expert_dims|share_expert_dim", "shared_ffn_dim", 1280},
    {"moe_router_scaling_factor", "router_scale", 1},
    {0},
};
static const FixedKey step_fixed[] = {{"use_bidirectional_attention", "false"}, {0}};

/* ---- Biases ---- */

static const BiasRule attention_biases[] = {{QKVO, "attention_bias", false}, {0}};
static const BiasRule step_biases[] = {
    {QKVO, "attention_bias", false}, {DENSE_AND_SHARED, "mlp_bias", false}, {0}};

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
/* Norms of queries and keys, experts one by one: Mellum, Qwen 3 Omni. */
static const TensorRule normed_tensors[] = {
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

#define STEP_EXPERTS(to, from, rows, cols)                                                         \
    STACKED("experts.%u." to, "moe." from ".weight", rows, cols, RULE_OPTIONAL, {0}, {0})
static const TensorRule step_tensors[] = {
    LLAMA_EMBEDDING,
    NORM_PLUS_ONE("attention_norm", FROM_LAYER "input_layernorm", N_DIM),
    NORM_PLUS_ONE("ffn_norm", FROM_LAYER "post_attention_layernorm", N_DIM),
    LLAMA_ATTENTION,
    NORM_PLUS_ONE("q_norm", FROM_LAYER "self_attn.q_norm", N_HEAD),
    NORM_PLUS_ONE("k_norm", FROM_LAYER "self_attn.k_norm", N_HEAD),
    {"attention_gate", FROM_LAYER "self_attn.g_proj.weight", N_HEADS, N_DIM, RULE_MATRIX, {0}, {0}},
    OPTIONAL_FFN("mlp"),
    DENSE_BIASES,
    MAYBE("router", "moe.gate", N_EXPERTS, N_DIM),
    CORRECTION("moe.router_bias"),
    STEP_EXPERTS("w_gate", "gate_proj", N_EXPERT_FFN, N_DIM),
    STEP_EXPERTS("w_up", "up_proj", N_EXPERT_FFN, N_DIM),
    STEP_EXPERTS("w_down", "down_proj", N_DIM, N_EXPERT_FFN),
    SHARED("share_expert."),
    GEMMA_END,
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

static void qwen3_omni_preset(Config *config) {
    config->qk_norm = QK_NORM_HEAD;
    config->rope_theta = 1e6f;
}

/* The weights of the chosen experts add up to 1 unless norm_topk_prob is false. */
static Status qwen3_omni_finish(const json_t *json, Config *config, Error *error) {
    (void)error;
    if (json_flag(json, "norm_topk_prob", true)) config->router = ROUTER_SOFTMAX_CHOSEN;
    return STATUS_OK;
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

static void step_preset(Config *config) {
    config->qk_norm = QK_NORM_HEAD;
    config->router = ROUTER_SIGMOID_SCORES;
    config->router_normalize = true;
}

/* Sets the number of query heads of layer l from the object's num_attention_heads, if it has one.
 */
static Status step_layer_heads(const json_t *object, uint32_t l, Config *config, Error *error) {
    const json_t *value = json_object_get(object, "num_attention_heads");
    double n = value ? json_number_value(value) : config->n_heads;
    if (value && !json_is_number(value))
        return error_set(error, "config.json: layer %u: num_attention_heads is not a number", l);
    if (!(n >= 1 && n <= 1 << 12 && n == floor(n)))
        return error_set(error, "config.json: layer %u: num_attention_heads is %g", l, n);
    config->layer_n_heads[l] = n == config->n_heads ? 0 : (uint32_t)n;
    return STATUS_OK;
}

/* The layers that per_layer_config names, an object with the layers' numbers as keys. */
static Status step_layer_config(const json_t *layers, Config *config, Error *error) {
    const char *number, *key;
    json_t *object, *value;
    if (!json_is_object(layers))
        return error_set(error, "config.json: per_layer_config is not an object");
    json_object_foreach((json_t *)layers, number, object) {
        char *end;
        unsigned long l = strtoul(number, &end, 10);
        if (end == number || *end || l >= config->n_layers || !json_is_object(object))
            return error_set(error, "config.json: per_layer_config has no layer '%.40s'", number);
        json_object_foreach(object, key, value) {
            if (strcmp(key, "num_attention_heads") != 0)
                return error_set(error,
                                 "config.json: per_layer_config of layer %lu has '%.40s', which "
                                 "this program cannot compute",
                                 l, key);
        }
        if (step_layer_heads(object, (uint32_t)l, config, error) != STATUS_OK) return STATUS_FAILED;
    }
    return STATUS_OK;
}

/* Layers with windows have query heads of their own number. */
static Status step_heads(const json_t *json, Config *config, Error *error) {
    const json_t *layers = json_value(json, "per_layer_config");
    const json_t *other = json_value(json, "attention_other_setting");
    if (layers) return step_layer_config(layers, config, error);
    if (other && !json_is_object(other))
        return error_set(error, "config.json: attention_other_setting is not an object");
    json_t *heads =
        json_pack("{s:O*}", "num_attention_heads", json_value(json, "num_sliding_attention_heads"));
    if (!heads) return error_set(error, "config.json: no memory");
    const json_t *source = json_object_size(heads) ? heads : other;
    Status status = STATUS_OK;
    for (uint32_t l = 0; source && status == STATUS_OK && l < config->n_layers; l++)
        if (config->rope_table[l] == 1) status = step_layer_heads(source, l, config, error);
    json_decref(heads);
    return status;
}

static Status step_finish(const json_t *json, Config *config, Error *error) {
    const json_t *types = json_value(json, "layer_types"),
                 *gating = json_object_get(json, "gating");
    const char *gates = json_string_value(gating);
    double scalar = json_number(json, "query_pre_attn_scalar", config->head_dim);
    if (gating && !json_is_true(gating) && !(gates && strcmp(gates, "per-head") == 0))
        return error_set(error, "config.json: gating is not \"per-head\", which this program "
                                "cannot compute");
    if (!(scalar > 0 && isfinite(scalar)))
        return error_set(error, "config.json: query_pre_attn_scalar is %g", scalar);
    config->attention_scale = (float)(1.0 / sqrt(scalar));
    if (types && family_windows(json, types, config, 0, 0, 0, error) != STATUS_OK)
        return STATUS_FAILED;
    family_local_tables(types, config);
    return step_heads(json, config, error);
}

/* Adds the limits that a list gives layers, as tensors: those of experts, or else of what is no
 * expert of many, the shared one and the feed-forward of a layer without experts. */
static Status step_limits(const RuleContext *context, const json_t *json, const char *key,
                          bool of_experts, Error *error) {
    const Config *config = &context->source->config;
    const json_t *list = json_value(json, key);
    for (uint32_t l = 0; list && json_array_size(list) > 0 && l < config->n_layers; l++) {
        const json_t *value = json_array_get(list, l);
        double limit = json_number_value(value);
        bool fits = isfinite((float)limit) && (limit == 0 || (float)limit > 0);
        if ((!json_is_number(value) && !json_is_null(value)) || !fits)
            return error_set(error, "config.json: %s has no limit for layer %u", key, l);
        if (limit > 0 && gate_limit_add(context->source, l, of_experts, limit, error) != STATUS_OK)
            return STATUS_FAILED;
    }
    if (list && !json_is_array(list)) return error_set(error, "config.json: %s is not a list", key);
    return STATUS_OK;
}

static Status step_more(const RuleContext *context, const json_t *json, Error *error) {
    if (step_limits(context, json, "swiglu_limits", true, error) != STATUS_OK) return STATUS_FAILED;
    return step_limits(context, json, "swiglu_limits_shared", false, error);
}

const Family families_mixtures[] = {
    {"step3p5", step_config, step_tensors, step_preset, step_finish, step_more,
     .biases = step_biases, .fixed = step_fixed, .has_layer_config = true,
     .rope = {.theta = "rope_parameters.rope_theta",
              .part = "rope_parameters.partial_rotary_factor",
              .part_absent = 1,
              .local_theta = 10000,
              .local_theta_key = "rope_parameters.rope_theta",
              .layer_lists = true},
     .bos_id = -1, .eos_id = -1},
    {"llama4_text", llama4_config, llama4_tensors, llama4_preset, llama4_finish,
     .biases = attention_biases, .bos_id = 1, .eos_id = 2},
    {"qwen3_vl_moe_text", qwen3_vl_config, qwen3_vl_tensors, qwen3_vl_preset,
     .biases = attention_biases, .rope = {.has_sections = true}, .tied = true, .bos_id = -1,
     .eos_id = -1},
    {"qwen3_omni_moe_text", qwen3_omni_config, normed_tensors, qwen3_omni_preset, qwen3_omni_finish,
     .biases = attention_biases, .rope = {.has_sections = true}, .bos_id = -1, .eos_id = -1},
    {"hunyuan_v1_moe", hunyuan_config, hunyuan_tensors, hunyuan_preset, hunyuan_finish,
     .biases = attention_biases, .rope = {.has_alpha = true}, .bos_id = 1, .eos_id = 2},
    {"granitemoeshared", granite_config, granite_tensors, granite_preset, family_granite,
     .biases = attention_biases, .bos_id = 1, .eos_id = 2},
    {"granitemoe_swa", granite_config, granite_swa_tensors, granite_preset, granite_swa_finish,
     .biases = attention_biases, .rope = {.layer_thetas = true}, .bos_id = 1, .eos_id = 2},
    {"flex_olmo", flex_olmo_config, flex_olmo_tensors, flex_olmo_preset, normalized_finish,
     .biases = attention_biases, .bos_id = -1, .eos_id = 100257},
    {"mellum", mellum_config, normed_tensors, mellum_preset, mellum_finish,
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
