/* Mixtures of experts whose routers rank by scores: sigmoid or softmax, a learned correction,
 * groups, a scale. The first layers often are dense, and an expert without a gate is shared. */
#include "formats/expert_rules.h"
#include "formats/json.h"

#include <string.h>

/* ---- Keys ---- */

static const ConfigRule glm4_moe_config[] = {
    SIZE_KEYS(151552, 4096, 10944, 46, 96),
    MOE_KEYS(8, 0, 131072, 1e-5),
    EXPERT_KEYS(ROUTED_EXPERTS, 128, 8, "moe_intermediate_size", 1408),
    GROUP_KEYS(1, 1),
    {0},
};
static const ConfigRule glm4v_moe_config[] = {
    SIZE_KEYS(151424, 4096, 10944, 46, 96),
    MOE_KEYS(8, 0, 65536, 1e-5),
    EXPERT_KEYS(ROUTED_EXPERTS, 128, 8, "moe_intermediate_size", 1408),
    GROUP_KEYS(1, 1),
    {0},
};
static const ConfigRule flint_config[] = {
    SIZE_KEYS(150144, 2048, 6144, 49, 32),
    MOE_KEYS(4, 128, 262144, 1e-6),
    EXPERT_KEYS("num_experts", 256, 6, "moe_intermediate_size", 512),
    {"shared_expert_intermediate_size", "shared_ffn_dim", 1024},
    {"norm_topk_prob", "router_normalize", 1},
    {0},
};
/* Every layer is a mixture; intermediate_size is not read. */
static const ConfigRule solar_open_config[] = {
    ROUTED_SIZES(196608, 4096, 48, 64),
    MOE_KEYS(8, 128, 131072, 1e-5),
    EXPERT_KEYS(ROUTED_EXPERTS, 128, 8, "moe_intermediate_size", 1280),
    {"moe_intermediate_size", "ffn_dim", 1280},
    GROUP_KEYS(1, 1),
    {0},
};
static const ConfigRule dots1_config[] = {
    SIZE_KEYS(152064, 4608, 10944, 62, 32),
    MOE_KEYS(32, 0, 2048, 1e-6),
    EXPERT_KEYS(ROUTED_EXPERTS, REQUIRED, REQUIRED, "moe_intermediate_size", 1408),
    GROUP_KEYS(0, 1),
    {0},
};
static const ConfigRule minimax_m2_config[] = {
    SIZE_KEYS(200064, 3072, 1536, 62, 48),
    MOE_KEYS(8, 128, 196608, 1e-6),
    EXPERT_KEYS(BOTH_NAMES, 256, 8, "intermediate_size", 1536),
    {0},
};
static const ConfigRule exaone_moe_config[] = {
    SIZE_KEYS(102400, 4096, 16384, 32, 32),
    MOE_KEYS(32, 0, 2048, 1e-5),
    EXPERT_KEYS("num_experts", 64, 8, "moe_intermediate_size", 1024),
    GROUP_KEYS(1, 2.5),
    {0},
};
static const ConfigRule hy_v3_config[] = {
    SIZE_KEYS(120832, 4096, 13312, 80, 64),
    MOE_KEYS(8, 128, 131072, 1e-5),
    EXPERT_KEYS("num_experts|num_local_experts", 192, 8, "moe_intermediate_size", 1536),
    {"router_scaling_factor", "router_scale", 2.826},
    {0},
};
static const ConfigRule afmoe_config[] = {
    SIZE_KEYS(200192, 2048, 6144, 32, 16),
    MOE_KEYS(0, 128, 16384, 1e-5),
    EXPERT_KEYS("num_experts|num_local_experts", 64, 6, "moe_intermediate_size", 1408),
    {"route_scale", "router_scale", 1},
    {0},
};
static const ConfigRule cohere2_moe_config[] = {
    SIZE_KEYS(256000, 8192, 22528, 40, 64),
    KV_HEADS(0),
    HEAD_DIM(128),
    CONTEXT(8192),
    {"layer_norm_eps", "norm_eps", 1e-5},
    {"hidden_act", "activation", ACTIVATION_SILU},
    {"logit_scale", "logit_scale", 0.0625},
    EXPERT_KEYS("num_experts", 8, 2, "intermediate_size", 22528),
    {0},
};
static const ConfigRule mimo_v2_flash_config[] = {
    SIZE_KEYS(152576, 4096, 16384, 48, 64),
    MOE_KEYS(4, 192, 131072, 1e-5),
    {"v_head_dim", "value_dim", 128},
    EXPERT_KEYS(ROUTED_EXPERTS, 256, 8, "moe_intermediate_size", 2048),
    {"n_group", "router_groups", 1},
    {"topk_group", "router_groups_used", 1},
    {"norm_topk_prob", "router_normalize", 1},
    {0},
};
static const ConfigRule laguna_config[] = {
    SIZE_KEYS(100352, 2048, 8192, 40, 48),
    MOE_KEYS(8, 128, 131072, 1e-6),
    EXPERT_KEYS("num_experts", 256, 8, "moe_intermediate_size", 512),
    {"shared_expert_intermediate_size", "shared_ffn_dim", 512},
    {"moe_routed_scaling_factor", "router_scale", 1},
    {"moe_router_logit_softcapping", "router_softcap", 0},
    {0},
};
/* transformers does not read it, because the class declares it. */
static const FixedKey cohere2_moe_fixed[] = {{"rope_scaling", "null"}, {0}};
static const FixedKey laguna_fixed[] = {{"moe_apply_router_weight_on_input", "false"}, {0}};

/* ---- Biases ---- */

static const BiasRule qkv_biases[] = {{QKV, "attention_bias", false}, {0}};
static const BiasRule glm4v_moe_biases[] = {{QKV, "attention_bias", true}, {0}};
static const BiasRule qkvo_biases[] = {{QKVO, "attention_bias", false}, {0}};
static const BiasRule hy_v3_biases[] = {
    {QKVO, "attention_bias", false}, {DENSE_AND_SHARED, "mlp_bias", false}, {0}};

/* ---- Tensors ---- */

#define HEAD_NORMS                                                                                 \
    NORM_OF("q_norm", FROM_LAYER "self_attn.q_norm", N_HEAD),                                      \
        NORM_OF("k_norm", FROM_LAYER "self_attn.k_norm", N_HEAD)

static const TensorRule glm4_moe_tensors[] = {
    LLAMA_EMBEDDING,
    LLAMA_NORMS,
    LLAMA_ATTENTION,
    OPTIONAL_NORM("q_norm", FROM_LAYER "self_attn.q_norm", N_HEAD),
    OPTIONAL_NORM("k_norm", FROM_LAYER "self_attn.k_norm", N_HEAD),
    DENSE_OR_EXPERTS,
    CORRECTION("mlp.gate.e_score_correction_bias"),
    SHARED("mlp.shared_experts."),
    LLAMA_END,
    {0},
};
static const TensorRule solar_open_tensors[] = {
    LLAMA_EMBEDDING,
    LLAMA_NORMS,
    LLAMA_ATTENTION,
    DENSE_OR_EXPERTS,
    CORRECTION("mlp.gate.e_score_correction_bias"),
    SHARED("mlp.shared_experts."),
    LLAMA_END,
    {0},
};
static const TensorRule flint_tensors[] = {
    LLAMA_EMBEDDING,
    LLAMA_NORMS,
    LLAMA_ATTENTION,
    HEAD_NORMS,
    {"sinks", FROM_LAYER "self_attn.softmax_offset", N_ONE, N_HEADS, 0, {0}, {0}},
    DENSE_OR_EXPERTS,
    SHARED("mlp.shared_expert."),
    LLAMA_END,
    {0},
};
static const TensorRule dots1_tensors[] = {
    LLAMA_EMBEDDING,
    LLAMA_NORMS,
    LLAMA_ATTENTION,
    HEAD_NORMS,
    DENSE_OR_EXPERTS,
    CORRECTION("mlp.gate.e_score_correction_bias"),
    SHARED("mlp.shared_experts."),
    LLAMA_END,
    {0},
};
static const TensorRule minimax_m2_tensors[] = {
    LLAMA_EMBEDDING,
    LLAMA_NORMS,
    LLAMA_ATTENTION,
    NORM_OF("q_norm", FROM_LAYER "self_attn.q_norm", N_Q),
    NORM_OF("k_norm", FROM_LAYER "self_attn.k_norm", N_KV),
    LINEAR("router", FROM_LAYER "block_sparse_moe.gate", N_EXPERTS, N_DIM),
    CORRECTION("block_sparse_moe.e_score_correction_bias"),
    LINEAR("experts.%u.w_gate", FROM_LAYER "block_sparse_moe.experts.%u.w1", N_EXPERT_FFN, N_DIM),
    LINEAR("experts.%u.w_up", FROM_LAYER "block_sparse_moe.experts.%u.w3", N_EXPERT_FFN, N_DIM),
    LINEAR("experts.%u.w_down", FROM_LAYER "block_sparse_moe.experts.%u.w2", N_DIM, N_EXPERT_FFN),
    LLAMA_END,
    {0},
};
static const TensorRule exaone_moe_tensors[] = {
    LLAMA_EMBEDDING,
    LLAMA_NORMS,
    LLAMA_ATTENTION,
    HEAD_NORMS,
    DENSE_OR_EXPERTS,
    CORRECTION("mlp.e_score_correction_bias"),
    SHARED("mlp.shared_experts."),
    LLAMA_END,
    {0},
};
static const TensorRule hy_v3_tensors[] = {
    LLAMA_EMBEDDING,
    LLAMA_NORMS,
    LLAMA_ATTENTION,
    HEAD_NORMS,
    DENSE_OR_EXPERTS,
    DENSE_BIASES,
    MAYBE("router", "mlp.router.gate", N_EXPERTS, N_DIM),
    CORRECTION("mlp.expert_bias"),
    SHARED("mlp.shared_mlp."),
    LLAMA_END,
    {0},
};
/* The attention's output is multiplied by the sigmoid of a gate for each element. */
static const TensorRule afmoe_tensors[] = {
    LLAMA_EMBEDDING,
    NORM("attention_norm", FROM_LAYER "input_layernorm"),
    NORM("post_attention_norm", FROM_LAYER "post_attention_layernorm"),
    NORM("ffn_norm", FROM_LAYER "pre_mlp_layernorm"),
    NORM("post_ffn_norm", FROM_LAYER "post_mlp_layernorm"),
    LLAMA_ATTENTION,
    HEAD_NORMS,
    {"attention_gate", FROM_LAYER "self_attn.gate_proj.weight", N_OUT, N_DIM, 0, {0}, {0}},
    DENSE_OR_EXPERTS,
    MAYBE("router", "mlp.router.gate", N_EXPERTS, N_DIM),
    CORRECTION("mlp.expert_bias"),
    SHARED("mlp.shared_experts."),
    LLAMA_END,
    {0},
};
static const TensorRule cohere2_moe_tensors[] = {
    LLAMA_EMBEDDING,
    NORM("attention_norm", FROM_LAYER "input_layernorm"),
    LLAMA_ATTENTION,
    DENSE_OR_EXPERTS,
    SHARED("mlp.shared_experts."),
    LLAMA_END,
    {0},
};
static const TensorRule mimo_v2_flash_tensors[] = {
    LLAMA_EMBEDDING,
    LLAMA_NORMS,
    LINEAR("wq", FROM_LAYER "self_attn.q_proj", N_Q, N_DIM),
    LINEAR("wk", FROM_LAYER "self_attn.k_proj", N_KV, N_DIM),
    LINEAR("wv", FROM_LAYER "self_attn.v_proj", N_V, N_DIM),
    LINEAR("wo", FROM_LAYER "self_attn.o_proj", N_DIM, N_OUT),
    OPTIONAL("sinks", FROM_LAYER "self_attn.attention_sink_bias", N_ONE, N_HEADS),
    DENSE_OR_EXPERTS,
    CORRECTION("mlp.gate.e_score_correction_bias"),
    LLAMA_END,
    {0},
};
static const TensorRule laguna_tensors[] = {
    LLAMA_EMBEDDING,
    LLAMA_NORMS,
    LLAMA_ATTENTION,
    HEAD_NORMS,
    DENSE_OR_EXPERTS,
    CORRECTION("mlp.experts.e_score_correction_bias"),
    SHARED("mlp.shared_expert."),
    LLAMA_END,
    {0},
};
/* A gate for each head, or for each element of its output. */
#define GATE(rows)                                                                                 \
    {                                                                                              \
        "attention_gate", FROM_LAYER "self_attn.g_proj.weight", rows, N_DIM, RULE_MATRIX, {0}, {   \
            0                                                                                      \
        }                                                                                          \
    }
static const TensorRule gates_of_heads[] = {GATE(N_HEADS), {0}};
static const TensorRule gates_of_elements[] = {GATE(N_OUT), {0}};

/* ---- Fields that no key gives, and keys that a rule cannot describe ---- */

static void sigmoid_preset(Config *config) {
    config->router = ROUTER_SIGMOID_SCORES;
}

static Status glm4_moe_finish(const json_t *json, Config *config, Error *error) {
    if (json_flag(json, "use_qk_norm", false)) config->qk_norm = QK_NORM_HEAD;
    return family_shared_width(json, "n_shared_experts", 1, config, error);
}

static void solar_open_preset(Config *config) {
    sigmoid_preset(config);
    config->rope_theta = 1e6f;
}

static Status solar_open_finish(const json_t *json, Config *config, Error *error) {
    return family_shared_width(json, "n_shared_experts", 1, config, error);
}

static void head_norms_preset(Config *config) {
    sigmoid_preset(config);
    config->qk_norm = QK_NORM_HEAD;
}

/* Full attention, without RoPE, in the first two layers, every fourth and the last, unless a list
 * says which. */
static Status flint_finish(const json_t *json, Config *config, Error *error) {
    const json_t *types = json_value(json, "layer_types");
    if (family_windows(json, types, config, 513, 0, 0, error) != STATUS_OK) return STATUS_FAILED;
    for (uint32_t i = 0; i < config->n_layers; i++) {
        bool full = i < 2 || i % 4 == 1 || i == config->n_layers - 1;
        if (!types && full) config->window[i] = 0;
        config->rope_table[i] = config->window[i] ? 0 : 2;
    }
    return STATUS_OK;
}

/* Layers from max_window_layers on have windows. */
static Status dots1_finish(const json_t *json, Config *config, Error *error) {
    double first = json_number(json, "max_window_layers", 62);
    if (family_windows(json, json_value(json, "layer_types"), config, 4096,
                       first > 0 ? (uint32_t)fmin(first, 1e6) : 0, 0, error) != STATUS_OK)
        return STATUS_FAILED;
    return family_shared_width(json, "n_shared_experts", 0, config, error);
}

static void minimax_m2_preset(Config *config) {
    sigmoid_preset(config);
    config->router_normalize = true;
    config->qk_norm = QK_NORM_ALL;
    config->rope_theta = 5e6f;
}

/* Where some layers have windows, the others have no RoPE. */
static Status exaone_moe_finish(const json_t *json, Config *config, Error *error) {
    const json_t *pattern = json_value(json, "sliding_window_pattern"); /* 4, or "LLLG" */
    const json_t *window = json_object_get(json, "sliding_window");
    double every = pattern ? json_is_string(pattern) ? (double)json_string_length(pattern)
                                                     : json_number_value(pattern)
                           : 4;
    if (!(every >= 0 && every < 1e6))
        return error_set(error, "config.json: sliding_window_pattern is %g", every);
    if (family_windows(json, json_value(json, "layer_types"), config, 4096, 0, (uint32_t)every,
                       error) != STATUS_OK)
        return STATUS_FAILED;
    for (uint32_t i = 0; i < config->n_layers; i++)
        config->rope_table[i] = config->window[i] == 0 && !json_is_null(window) ? 2 : 0;
    return family_shared_width(json, "num_shared_experts", 1, config, error);
}

static void hy_v3_preset(Config *config) {
    head_norms_preset(config);
    config->router_normalize = true;
    config->rope_theta = 11158840.0f;
}

static Status hy_v3_finish(const json_t *json, Config *config, Error *error) {
    return family_shared_width(json, "num_shared_experts", 1, config, error);
}

static void afmoe_preset(Config *config) {
    head_norms_preset(config);
    config->router_normalize = true;
    config->norm_place = NORM_AROUND;
}

/* Only layers with windows have RoPE. */
static Status afmoe_finish(const json_t *json, Config *config, Error *error) {
    double every = json_number(json, "global_attn_every_n_layers", 4);
    if (!(every >= 1 && every < 1e6))
        return error_set(error, "config.json: global_attn_every_n_layers is %g", every);
    if (family_windows(json, json_value(json, "layer_types"), config, 1024, 0, (uint32_t)every,
                       error) != STATUS_OK)
        return STATUS_FAILED;
    for (uint32_t i = 0; i < config->n_layers; i++)
        config->rope_table[i] = config->window[i] ? 0 : 2;
    if (json_flag(json, "mup_enabled", false))
        config->embedding_scale = (float)sqrt((double)config->dim);
    return family_shared_width(json, "num_shared_experts", 2, config, error);
}

static void cohere2_moe_preset(Config *config) {
    config->norm = NORM_LAYER;
    config->parallel_block = true;
    config->rope_pairing = ROPE_INTERLEAVED;
}

/* Whether layer i has one feed-forward instead of experts. */
static bool is_dense(const json_t *json, uint32_t i, double n_first) {
    const json_t *types = json_value(json, "mlp_layer_types");
    const char *type = json_string_value(json_array_get(types, i));
    return types ? type && strcmp(type, "dense") == 0 : i < n_first;
}

/* Every n-th layer has no window and no RoPE, counted anew after the first dense ones, which have a
 * pattern of their own. A pattern of 1 gives dense layers RoPE without windows. */
static Status cohere2_moe_windows(const json_t *json, Config *config, Error *error) {
    double n_dense = json_number(json, "first_k_dense_replace", 0);
    double dense_every = json_number(json, "prefix_dense_sliding_window_pattern", 1);
    const json_t *types = json_value(json, "layer_types");
    uint32_t every;
    if (family_pattern(json, 4, &every, error) != STATUS_OK ||
        family_windows(json, types, config, 4096, 0, 0, error) != STATUS_OK)
        return STATUS_FAILED;
    if (!(dense_every >= 1 && dense_every < 1e6))
        return error_set(error, "config.json: prefix_dense_sliding_window_pattern is %g",
                         dense_every);
    if (!(n_dense >= 0 && n_dense <= config->n_layers))
        return error_set(error, "config.json: first_k_dense_replace is %g", n_dense);
    uint32_t first = (uint32_t)n_dense;
    for (uint32_t i = 0; i < config->n_layers; i++) {
        uint32_t place = i < first ? i + 1 : i + 1 - first;
        uint32_t pattern = i < first ? (uint32_t)dense_every : every;
        if (!types && place % pattern == 0) config->window[i] = 0;
        bool rotated = config->window[i] || (dense_every == 1 && is_dense(json, i, n_dense));
        config->rope_table[i] = rotated ? 0 : 2;
    }
    return STATUS_OK;
}

/* A softmax over the chosen experts is one over all of them whose shares are normalized. */
static Status cohere2_moe_router(const json_t *json, Config *config, Error *error) {
    const char *kind = json_text(json, "expert_selection_fn");
    if (kind && strcmp(kind, "softmax") != 0 && strcmp(kind, "sigmoid") != 0)
        return error_set(error, "config.json: expert_selection_fn '%.40s' is not known", kind);
    bool is_sigmoid = kind && strcmp(kind, "sigmoid") == 0;
    config->router = is_sigmoid ? ROUTER_SIGMOID_SCORES : ROUTER_SOFTMAX_SCORES;
    config->router_normalize = !is_sigmoid || json_flag(json, "norm_topk_prob", true);
    return STATUS_OK;
}

static Status cohere2_moe_finish(const json_t *json, Config *config, Error *error) {
    const char *strategy = json_text(json, "shared_expert_combination_strategy");
    double eps = json_number(json, "rms_norm_eps", -1);
    double width = json_number(json, "prefix_dense_intermediate_size", config->ffn_dim);
    if (strategy && strcmp(strategy, "average") != 0 && strcmp(strategy, "sum") != 0)
        return error_set(error,
                         "config.json: shared_expert_combination_strategy '%.40s' is not known",
                         strategy);
    if (eps >= 0) {
        config->norm = NORM_RMS;
        config->norm_eps = (float)eps;
    }
    if (!(width >= 1 && width <= 1 << 20 && width == floor(width)))
        return error_set(error, "config.json: prefix_dense_intermediate_size is %g", width);
    config->ffn_dim = (uint32_t)width;
    if (family_shared_width(json, "num_shared_experts", 0, config, error) != STATUS_OK ||
        cohere2_moe_router(json, config, error) != STATUS_OK)
        return STATUS_FAILED;
    /* The average of the chosen experts' output and the shared one's. */
    if (config->shared_ffn_dim > 0 && (!strategy || strcmp(strategy, "average") == 0))
        config->router_scale = config->shared_scale = 0.5f;
    return cohere2_moe_windows(json, config, error);
}

static void mimo_v2_flash_preset(Config *config) {
    sigmoid_preset(config);
    config->rope_theta = 5e6f;
}

/* Layers with windows have twice the key/value heads and RoPE of their own. Without layer_types the
 * first layer and every 6th have none. Without a partial_rotary_factor transformers rotates a third
 * of a head, or all of it for a rope_type other than the default: refused. */
static Status mimo_v2_flash_finish(const json_t *json, Config *config, Error *error) {
    const json_t *entry;
    const char *name;
    json_object_foreach((json_t *)json_value(json, "rope_parameters"), name, entry) {
        const char *type = json_string_value(json_value(entry, "rope_type"));
        if (type && strcmp(type, "default") != 0 && !json_value(entry, "partial_rotary_factor"))
            return error_set(error,
                             "config.json: rope_parameters.%s has rope_type '%s' without a "
                             "partial_rotary_factor",
                             name, type);
    }
    double before = json_number(json, "sliding_window_size", 0);
    if (family_windows(json, json_value(json, "layer_types"), config, 129, 1, 6, error) !=
        STATUS_OK)
        return STATUS_FAILED;
    if (!(before >= 0 && before < 1 << 28))
        return error_set(error, "config.json: sliding_window_size is %g", before);
    for (uint32_t i = 0; i < config->n_layers; i++) {
        bool slides = config->window[i] > 0;
        if (slides && before > 0) config->window[i] = (uint32_t)before + 1;
        config->rope_table[i] = slides ? 1 : 0;
        config->layer_n_kv_heads[i] = slides ? 2 * config->n_kv_heads : 0;
    }
    config->router_scale = (float)json_number(json, "routed_scaling_factor", 1);
    const json_t *scale = json_object_get(json, "attention_value_scale");
    if (scale && !json_is_null(scale) && !json_is_number(scale))
        return error_set(error, "config.json: attention_value_scale is not a number");
    config->value_scale = 0.707f;
    if (scale) config->value_scale = json_is_null(scale) ? 1.0f : (float)json_number_value(scale);
    return STATUS_OK;
}

static void laguna_preset(Config *config) {
    head_norms_preset(config);
    config->router_normalize = true;
    config->gate_activation = ACTIVATION_SOFTPLUS;
    config->rope_theta = 500000.0f;
}

/* Sets the number of query heads of each layer from a list; the key may be absent. */
static Status set_layer_heads(const json_t *json, const char *key, Config *config, Error *error) {
    const json_t *list = json_value(json, key);
    if (list && json_array_size(list) != config->n_layers)
        return error_set(error, "config.json: %s is not a list of %u layers", key,
                         config->n_layers);
    for (uint32_t i = 0; list && i < config->n_layers; i++) {
        double n = json_number_value(json_array_get(list, i));
        if (!(n >= 1 && n <= 1 << 12 && n == floor(n)))
            return error_set(error, "config.json: %s holds %g", key, n);
        config->layer_n_heads[i] = n == config->n_heads ? 0 : (uint32_t)n;
    }
    return STATUS_OK;
}

/* Layers with windows have a RoPE of their own. */
static Status laguna_finish(const json_t *json, Config *config, Error *error) {
    const json_t *types = json_value(json, "layer_types");
    if (types && family_windows(json, types, config, 512, 0, 0, error) != STATUS_OK)
        return STATUS_FAILED;
    for (uint32_t i = 0; i < config->n_layers; i++)
        config->rope_table[i] = config->window[i] ? 1 : 0;
    return set_layer_heads(json, "num_attention_heads_per_layer", config, error);
}

static Status laguna_more(const RuleContext *context, const json_t *json, Error *error) {
    const json_t *gating = json_value(json, "gating");
    const char *text = json_string_value(gating);
    bool of_heads = text ? strcmp(text, "per-head") == 0 : !gating || json_is_true(gating);
    return rules_apply(context, of_heads ? gates_of_heads : gates_of_elements, error);
}

#define PARTIAL_ROPE(absent)                                                                       \
    { .part = "partial_rotary_factor", .part_absent = absent }

const Family families_routed[] = {
    {"glm4_moe", glm4_moe_config, glm4_moe_tensors, sigmoid_preset, glm4_moe_finish,
     .biases = qkv_biases, .rope = PARTIAL_ROPE(0.5), .prediction = PREDICTION_NEXTN, .bos_id = -1,
     .eos_id = -1},
    {"glm4v_moe_text", glm4v_moe_config, solar_open_tensors, sigmoid_preset, solar_open_finish,
     .biases = glm4v_moe_biases,
     .rope = {.part = "partial_rotary_factor", .part_absent = 0.5, .has_sections = true},
     .bos_id = -1, .eos_id = -1},
    {"flint", flint_config, flint_tensors, head_norms_preset, flint_finish, .biases = qkvo_biases,
     .bos_id = -1, .eos_id = -1},
    {"solar_open", solar_open_config, solar_open_tensors, solar_open_preset, solar_open_finish,
     .biases = qkv_biases, .rope = PARTIAL_ROPE(1), .bos_id = -1, .eos_id = -1},
    {"dots1", dots1_config, dots1_tensors, head_norms_preset, dots1_finish, .biases = qkvo_biases,
     .bos_id = -1, .eos_id = -1},
    {"minimax_m2", minimax_m2_config, minimax_m2_tensors, minimax_m2_preset,
     .rope = {.part = "partial_rotary_factor", .part_absent = 1, .count = "rotary_dim"},
     .bos_id = 200034, .eos_id = 200020},
    {"exaone_moe", exaone_moe_config, exaone_moe_tensors, head_norms_preset, exaone_moe_finish,
     .bos_id = 1, .eos_id = 53},
    {"hy_v3", hy_v3_config, hy_v3_tensors, hy_v3_preset, hy_v3_finish, .biases = hy_v3_biases,
     .bos_id = -1, .eos_id = -1},
    {"afmoe", afmoe_config, afmoe_tensors, afmoe_preset, afmoe_finish, .biases = qkvo_biases,
     .bos_id = -1, .eos_id = -1},
    {"cohere2_moe", cohere2_moe_config, cohere2_moe_tensors, cohere2_moe_preset, cohere2_moe_finish,
     .biases = qkvo_biases, .fixed = cohere2_moe_fixed, .norms_have_no_bias = true, .tied = true,
     .bos_id = 5, .eos_id = 255001},
    {"mimo_v2_flash", mimo_v2_flash_config, mimo_v2_flash_tensors, mimo_v2_flash_preset,
     mimo_v2_flash_finish, .biases = qkv_biases,
     .rope = {.theta = "rope_parameters.rope_theta",
              .part = "rope_parameters.partial_rotary_factor",
              .part_absent = 0.334,
              .local_theta = 10000,
              .local_theta_key = "rope_parameters.rope_theta"},
     .bos_id = 1, .eos_id = -1},
    {"laguna", laguna_config, laguna_tensors, laguna_preset, laguna_finish, laguna_more,
     .biases = qkvo_biases, .fixed = laguna_fixed,
     .rope = {.theta = "rope_parameters.rope_theta",
              .part = "rope_parameters.partial_rotary_factor",
              .part_absent = 1,
              .absent = "{\"partial_rotary_factor\": 0.5}",
              .local_theta = 10000,
              .local_theta_key = "rope_parameters.rope_theta"},
     .bos_id = -1, .eos_id = -1},
    {0},
};
