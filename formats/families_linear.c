/* More families with layers that keep a state: OLMo Hybrid, Kimi Linear, MiniMax-01, LFM3. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/convolutions.h"
#include "formats/json.h"
#include "formats/state_rules.h"

/* ---- LFM3: short convolutions beside attention with and without windows ---- */

static const ConfigRule lfm3_config[] = {
    SIZE_KEYS(128000, 2048, 7680, 24, 16),
    KV_HEADS(4),
    HEAD_DIM(128),
    CONTEXT(128000),
    {"norm_eps|rms_norm_eps", "norm_eps", 1e-5},
    {"conv_L_cache", "state_kernel", 7},
    {0},
};
static const BiasRule lfm3_biases[] = {
    {QKVO, "attention_bias", false},
    {" convolution.b convolution.c convolution.x convolution.out convolution.taps ", "conv_bias",
     false},
    {0}};

static const TensorRule lfm3_tensors[] = {
    LLAMA_EMBEDDING,
    NORM("attention_norm", FROM_LAYER "operator_norm"),
    NORM("ffn_norm", FROM_LAYER "ffn_norm"),
    SOME_QKV,
    SOME_LINEAR("wo", "self_attn.o_proj", N_DIM, N_OUT),
    SOME_VECTOR("q_norm", "self_attn.q_norm.weight", N_HEAD),
    SOME_VECTOR("k_norm", "self_attn.k_norm.weight", N_HEAD),
    LFM2_CONVOLUTION,
    LFM2_FFN,
    NORM("final_norm", "model.embedding_norm"),
    OUTPUT("lm_head"),
    {0},
};
/* What two switches add. transformers calls the gate g_proj. */
static const TensorRule lfm3_gate[] = {
    SOME_MATRIX("attention_gate", "self_attn.gate_proj", N_HEADS, N_DIM),
    SOME_MATRIX("attention_gate", "self_attn.g_proj", N_HEADS, N_DIM),
    {0},
};
static const TensorRule lfm3_sandwich[] = {
    NORM("post_attention_norm", FROM_LAYER "post_operator_norm"),
    NORM("post_ffn_norm", FROM_LAYER "post_ffn_norm"),
    {0},
};

static void lfm3_preset(Config *config) {
    config->qk_norm = QK_NORM_HEAD;
    config->rope_theta = 1e6f;
}

/* Layers are convolutions, or attend to everything or to a window; the latter two have a RoPE table
 * each. */
static Status lfm3_finish(const json_t *json, Config *config, Error *error) {
    static const KindName names[] = {{"conv", LAYER_CONVOLUTION},
                                     {"full_attention", LAYER_ATTENTION},
                                     {"sliding_attention", LAYER_ATTENTION},
                                     {0}};
    const json_t *types = json_value(json, "layer_types");
    uint32_t window = 0;
    bool slides_any = false;
    if (types && state_read_kinds(types, names, config, error) != STATUS_OK) return STATUS_FAILED;
    for (uint32_t l = 0; l < config->n_layers; l++) {
        const char *type = types                 ? json_string_value(json_array_get(types, l))
                           : l % 4 == 2          ? "full_attention"
                           : l % 4 == 0 && l > 0 ? "sliding_attention"
                                                 : "conv";
        bool slides = strcmp(type, "sliding_attention") == 0;
        if (slides && !slides_any &&
            state_read_whole(json, "sliding_window", 256, &window, error) != STATUS_OK)
            return STATUS_FAILED;
        slides_any = slides_any || slides;
        config->layer_kind[l] = strcmp(type, "conv") == 0 ? LAYER_CONVOLUTION : LAYER_ATTENTION;
        config->window[l] = slides ? window : 0;
        config->rope_table[l] = slides;
    }
    if (json_flag(json, "use_sandwich_norm", true)) config->norm_place = NORM_AROUND;
    return STATUS_OK;
}

static Status lfm3_more(const RuleContext *context, const json_t *json, Error *error) {
    if (json_flag(json, "use_attention_gate", true) &&
        rules_apply(context, lfm3_gate, error) != STATUS_OK)
        return STATUS_FAILED;
    if (context->source->config.norm_place != NORM_AROUND) return STATUS_OK;
    return rules_apply(context, lfm3_sandwich, error);
}

#define LFM3_ROPE                                                                                  \
    {                                                                                              \
        .local_theta = 10000, .local_theta_key = "sliding_attention.rope_theta",                   \
        .local_theta_given = 1000000,                                                              \
        .absent = "{\"rope_type\": \"proportional\", \"partial_rotary_factor\": 0.5, "             \
                  "\"rope_theta\": 1000000}"                                                       \
    }

/* ---- OLMo Hybrid: gated DeltaNet with norms before, attention with norms after ---- */

static const ConfigRule olmo_hybrid_config[] = {
    SIZE_KEYS(100352, 3840, 11008, 32, 30),
    KV_HEADS(0),
    HEAD_DIM(0),
    CONTEXT(65536),
    {"rms_norm_eps", "norm_eps", 1e-6},
    {"linear_conv_kernel_dim", "state_kernel", 4},
    {0},
};
/* The activation of the feed-forward is that of the convolution as well. */
static const FixedKey silu_fixed[] = {{"hidden_act", "\"silu\""}, {0}};
static const BiasRule olmo_hybrid_biases[] = {{QKVO, "attention_bias", false}, {0}};

static const TensorRule olmo_hybrid_tensors[] = {
    LLAMA_EMBEDDING,
    SOME_QKV,
    SOME_LINEAR("wo", "self_attn.o_proj", N_DIM, N_OUT),
    SOME_VECTOR("q_norm", "self_attn.q_norm.weight", N_Q),
    SOME_VECTOR("k_norm", "self_attn.k_norm.weight", N_KV),
    SOME_MATRIX("delta.q", "linear_attn.q_proj", N_STATE_KEYS, N_DIM),
    SOME_MATRIX("delta.k", "linear_attn.k_proj", N_STATE_KEYS, N_DIM),
    SOME_MATRIX("delta.v", "linear_attn.v_proj", N_STATE_OUT, N_DIM),
    SOME_MATRIX("delta.z", "linear_attn.g_proj", N_STATE_OUT, N_DIM),
    SOME_MATRIX("delta.a", "linear_attn.a_proj", N_STATE_HEADS, N_DIM),
    SOME_MATRIX("delta.b", "linear_attn.b_proj", N_STATE_HEADS, N_DIM),
    SOME_MATRIX("delta.out", "linear_attn.o_proj", N_DIM, N_STATE_OUT),
    SOME("delta.convolution", "linear_attn.conv1d.weight", N_STATE_TAPS, N_STATE_MIXED,
         RULE_VECTOR | RULE_TRANSPOSED, {0}, {0}),
    SOME("delta.decay", "linear_attn.A_log", N_ONE, N_STATE_HEADS, RULE_MINUS_EXP, {0}, {0}),
    SOME_VECTOR("delta.step_bias", "linear_attn.dt_bias", N_STATE_HEADS),
    SOME_VECTOR("delta.norm", "linear_attn.o_norm.weight", N_STATE_VALUE),
    LLAMA_FFN,
    LLAMA_END,
    {0},
};

/* The norms of layers with a state, and of those that attend. Checkpoints and transformers have
 * different names for them, and transformers writes the second norm of both under one name. */
static const TensorRule olmo_hybrid_before[] = {
    SOME_VECTOR("attention_norm", "attention_layer_norm.weight", N_DIM),
    SOME_VECTOR("attention_norm", "input_layernorm.weight", N_DIM),
    SOME_VECTOR("ffn_norm", "feedforward_layer_norm.weight", N_DIM),
    SOME_VECTOR("ffn_norm", "post_attention_layernorm.weight", N_DIM),
    {0},
};
static const TensorRule olmo_hybrid_after[] = {
    SOME_VECTOR("post_attention_norm", "post_attention_layernorm.weight", N_DIM),
    SOME_VECTOR("post_attention_norm", "feedforward_layer_norm.weight", N_DIM),
    NORM("post_ffn_norm", FROM_LAYER "post_feedforward_layernorm"),
    {0},
};

/* Refuses a layer without one of its norms, which would be left out. */
static Status check_norms(const RuleContext *context, uint32_t l, bool attends, Error *error) {
    static const char *const names[2][2] = {{"attention_norm", "ffn_norm"},
                                            {"post_attention_norm", "post_ffn_norm"}};
    const Source *source = context->source;
    for (int i = 0; i < 2; i++) {
        char name[MODELFILE_NAME_BYTES];
        bool found = false;
        snprintf(name, sizeof name, "layers.%u.%s", l, names[attends][i]);
        for (size_t k = 0; k < source->n_tensors; k++)
            found = found || strcmp(source->tensors[k].name, name) == 0;
        if (!found) return error_set(error, "%s: no tensor becomes '%s'", source->path, name);
    }
    return STATUS_OK;
}

static Status olmo_hybrid_more(const RuleContext *context, const json_t *json, Error *error) {
    const Config *c = &context->source->config;
    (void)json;
    for (uint32_t l = 0; l < c->n_layers; l++) {
        bool attends = c->layer_kind[l] == LAYER_ATTENTION;
        if (rules_apply_to_layer(context, attends ? olmo_hybrid_after : olmo_hybrid_before, l,
                                 error) != STATUS_OK ||
            check_norms(context, l, attends, error) != STATUS_OK)
            return STATUS_FAILED;
    }
    return convolutions_join(context, "model.layers.%u.linear_attn.%c_conv1d.weight", error);
}

static void olmo_hybrid_preset(Config *config) {
    config->stack = STACK_MIXED_NORMS;
    config->qk_norm = QK_NORM_ALL;
    config->state_norm_eps = 1e-5f; /* whatever rms_norm_eps is */
}

/* A base of RoPE that is null: the layers are not rotated. */
static bool has_no_rope(const json_t *json) {
    const json_t *parameters = json_value(json, "rope_scaling");
    if (!json_object_size(parameters)) parameters = json_value(json, "rope_parameters");
    const json_t *theta = json_object_get(parameters, "rope_theta");
    return json_is_null(theta ? theta : json_object_get(json, "rope_theta"));
}

/* Reads the heads of the states, where absent keys follow from the model's sizes. */
static Status olmo_hybrid_heads(const json_t *json, Config *config, Error *error) {
    double heads = config->n_heads;
    if (state_read_whole(json, "linear_num_key_heads", heads, &config->state_key_heads, error) !=
            STATUS_OK ||
        state_read_whole(json, "linear_num_value_heads", heads, &config->state_heads, error) !=
            STATUS_OK ||
        state_read_whole(json, "linear_key_head_dim",
                         floor(0.75 * config->dim / config->state_key_heads),
                         &config->state_key_dim, error) != STATUS_OK)
        return STATUS_FAILED;
    return state_read_whole(json, "linear_value_head_dim", 2.0 * config->state_key_dim,
                            &config->state_value_dim, error);
}

/* Without layer_types every fourth layer attends, and the last one if there are fewer. */
static Status olmo_hybrid_finish(const json_t *json, Config *config, Error *error) {
    static const KindName names[] = {
        {"linear_attention", LAYER_DELTA}, {"full_attention", LAYER_ATTENTION}, {0}};
    const json_t *types = json_value(json, "layer_types");
    if (olmo_hybrid_heads(json, config, error) != STATUS_OK) return STATUS_FAILED;
    if (json_flag(json, "linear_allow_neg_eigval", true)) config->state_beta = 2.0f;
    if (has_no_rope(json)) config->position = POSITION_NONE;
    if (types) return state_read_kinds(types, names, config, error);
    for (uint32_t l = 0; l < config->n_layers; l++) {
        bool attends = l % 4 == 3 || (config->n_layers < 4 && l + 1 == config->n_layers);
        config->layer_kind[l] = attends ? LAYER_ATTENTION : LAYER_DELTA;
    }
    return STATUS_OK;
}

/* ---- Kimi Linear: delta attention with decays by key beside latent attention without RoPE ---- */

static const ConfigRule kimi_linear_config[] = {
    SIZE_KEYS(163840, 2304, 9216, 27, 32),
    {"kv_lora_rank", "latent_dim", 512},
    {"q_lora_rank", "latent_q_dim", 0},
    {"qk_nope_head_dim", "head_dim", 128},
    {"qk_rope_head_dim", "rotary_dim", 64},
    {"v_head_dim", "value_dim", 128},
    {"max_position_embeddings|model_max_length", "context", 1048576},
    {"rms_norm_eps", "norm_eps", 1e-5},
    {"num_local_experts|num_experts", "n_experts", 256},
    {"num_experts_per_tok|num_experts_per_token", "n_experts_used", 8},
    {"moe_intermediate_size", "expert_ffn_dim", 1024},
    {"n_group|num_expert_group", "router_groups", 1},
    {"topk_group", "router_groups_used", 1},
    {"norm_topk_prob|moe_renormalize", "router_normalize", 1},
    {"routed_scaling_factor", "router_scale", 2.446},
    {0},
};
static const BiasRule kimi_linear_biases[] = {{" wq_a wkv_a wo ", "attention_bias", false}, {0}};

#define KIMI_DENSE(at)                                                                             \
    SOME_MATRIX("w_gate", at "gate_proj", N_FFN, N_DIM),                                           \
        SOME_MATRIX("w_up", at "up_proj", N_FFN, N_DIM),                                           \
        SOME_MATRIX("w_down", at "down_proj", N_DIM, N_FFN)
#define KIMI_EXPERTS(at)                                                                           \
    SOME_MATRIX("router", at "gate", N_EXPERTS, N_DIM),                                            \
        SOME_VECTOR("router.correction", at "gate.e_score_correction_bias", N_EXPERTS),            \
        SOME_MATRIX("experts.%u.w_gate", at "experts.%u.w1", N_EXPERT_FFN, N_DIM),                 \
        SOME_MATRIX("experts.%u.w_up", at "experts.%u.w3", N_EXPERT_FFN, N_DIM),                   \
        SOME_MATRIX("experts.%u.w_down", at "experts.%u.w2", N_DIM, N_EXPERT_FFN),                 \
        SHARED(at "shared_experts.")
static const TensorRule kimi_linear_tensors[] = {
    LLAMA_EMBEDDING,
    LLAMA_NORMS,
    KIMI_DENSE("mlp."),
    KIMI_DENSE("block_sparse_moe."), /* as transformers writes it */
    KIMI_EXPERTS("block_sparse_moe."),
    LLAMA_END,
    {0},
};
/* Tensors of layers of one kind: q_proj and o_proj mean another thing in the other. */
#define KIMI_KV_B FROM_LAYER "self_attn.kv_b_proj.weight"
static const TensorRule kimi_latent[] = {
    SOME_MATRIX("wq", "self_attn.q_proj", N_Q, N_DIM),
    SOME_LINEAR("wq_a", "self_attn.q_a_proj", N_LATENT_Q, N_DIM),
    SOME_VECTOR("q_norm", "self_attn.q_a_layernorm.weight", N_LATENT_Q),
    SOME_MATRIX("wq_b", "self_attn.q_b_proj", N_Q, N_LATENT_Q),
    LINEAR("wkv_a", FROM_LAYER "self_attn.kv_a_proj_with_mqa", N_LATENT_KV, N_DIM),
    SOME_VECTOR("kv_norm", "self_attn.kv_a_layernorm.weight", N_LATENT),
    {"k_b.%u",
     KIMI_KV_B,
     N_LATENT,
     N_REST,
     RULE_HEADS | RULE_TRANSPOSED,
     {N_NONE},
     {N_REST, N_VALUE}},
    {"v_b.%u", KIMI_KV_B, N_VALUE, N_LATENT, RULE_HEADS, {N_REST}, {N_REST, N_VALUE}},
    LINEAR("wo", FROM_LAYER "self_attn.o_proj", N_DIM, N_OUT),
    {0},
};
static const TensorRule kimi_delta[] = {KIMI_DELTA, {0}};

static Status kimi_linear_more(const RuleContext *context, const json_t *json, Error *error) {
    const Config *c = &context->source->config;
    (void)json;
    for (uint32_t l = 0; l < c->n_layers; l++) {
        const TensorRule *rules = c->layer_kind[l] == LAYER_LATENT ? kimi_latent : kimi_delta;
        if (rules_apply_to_layer(context, rules, l, error) != STATUS_OK) return STATUS_FAILED;
    }
    return convolutions_join(context, "model.layers.%u.self_attn.%c_conv1d.weight", error);
}

static void kimi_linear_preset(Config *config) {
    config->position = POSITION_NONE;
    config->latent_norm_eps = 1e-6f; /* whatever rms_norm_eps says */
    config->router = ROUTER_SIGMOID_SCORES;
    config->state_by_key = true;
}

/* Sets layer_kind from the lists of layers, which count from 1, in linear_attn_config. */
static Status kimi_linear_lists(const json_t *full, const json_t *linear, Config *config,
                                Error *error) {
    const json_t *const lists[] = {full, linear};
    for (uint32_t l = 0; l < config->n_layers; l++) config->layer_kind[l] = LAYER_KINDS;
    for (int i = 0; i < 2; i++) {
        const json_t *item;
        size_t k;
        json_array_foreach((json_t *)lists[i], k, item) {
            json_int_t layer = json_integer_value(item);
            if (layer >= 1 && layer <= config->n_layers)
                config->layer_kind[layer - 1] = i == 0 ? LAYER_LATENT : LAYER_DELTA;
        }
    }
    for (uint32_t l = 0; l < config->n_layers; l++)
        if (config->layer_kind[l] == LAYER_KINDS)
            return error_set(error, "config.json: linear_attn_config says nothing of layer %u",
                             l + 1);
    return STATUS_OK;
}

/* layer_types, or the lists of linear_attn_config; without both every fourth layer attends. */
static Status kimi_linear_kinds(const json_t *json, const json_t *linear, Config *config,
                                Error *error) {
    static const KindName names[] = {
        {"linear_attention", LAYER_DELTA}, {"full_attention", LAYER_LATENT}, {0}};
    const json_t *types = json_value(json, "layer_types");
    const json_t *full = json_value(linear, "full_attn_layers");
    const json_t *states = json_value(linear, "kda_layers");
    if (types) return state_read_kinds(types, names, config, error);
    if (full && states) return kimi_linear_lists(full, states, config, error);
    for (uint32_t l = 0; l < config->n_layers; l++)
        config->layer_kind[l] = l > 0 && l % 4 == 0 ? LAYER_LATENT : LAYER_DELTA;
    return STATUS_OK;
}

static Status kimi_linear_finish(const json_t *json, Config *config, Error *error) {
    const json_t *linear = json_value(json, "linear_attn_config");
    const char *key =
        json_value(json, "n_shared_experts") ? "n_shared_experts" : "num_shared_experts";
    if (state_linear_sizes(json, 32, config, error) != STATUS_OK) return STATUS_FAILED;
    if (config->head_dim > 1 << 12 || config->rotary_dim > 1 << 12 || config->value_dim == 0)
        return error_set(error,
                         "config.json: qk_nope_head_dim %u, qk_rope_head_dim %u, v_head_dim %u",
                         config->head_dim, config->rotary_dim, config->value_dim);
    config->head_dim += config->rotary_dim;
    config->n_kv_heads = config->n_heads;
    config->attention_scale = (float)(1.0 / sqrt((double)config->head_dim));
    if (family_shared_width(json, key, 1, config, error) != STATUS_OK) return STATUS_FAILED;
    return kimi_linear_kinds(json, linear, config, error);
}

/* ---- Ling 3: the same with bounded decays, and latent attention with a gate for each head ---- */

static const ConfigRule bailing_hybrid_config[] = {
    SIZE_KEYS(157184, 2560, 6144, 42, 32),
    {"kv_lora_rank", "latent_dim", 512},
    {"qk_nope_head_dim", "head_dim", 128},
    {"qk_rope_head_dim", "rotary_dim", 64},
    {"v_head_dim", "value_dim", 128},
    {"max_position_embeddings|model_max_length", "context", 262144},
    {"rms_norm_eps", "norm_eps", 1e-6},
    {"num_local_experts|num_experts", "n_experts", 512},
    {"num_experts_per_tok|num_experts_per_token", "n_experts_used", 8},
    {"moe_intermediate_size", "expert_ffn_dim", 768},
    {"n_group|num_expert_group", "router_groups", 8},
    {"topk_group", "router_groups_used", 4},
    {"norm_topk_prob|moe_renormalize", "router_normalize", 1},
    {"routed_scaling_factor", "router_scale", 2.5},
    {"head_dim", "state_key_dim", 128},
    {"short_conv_kernel_size", "state_kernel", 4},
    {0},
};
static const BiasRule bailing_hybrid_biases[] = {{" wkv_a wo ", "attention_bias", false}, {0}};

static const TensorRule bailing_hybrid_tensors[] = {
    EMBEDDING("model.word_embeddings"),
    LLAMA_NORMS,
    DENSE_OR_EXPERTS,
    CORRECTION("mlp.gate.expert_bias"),
    SHARED("mlp.shared_experts."),
    LLAMA_END,
    {0},
};
#define LING_KV_B FROM_LAYER "attention.kv_b_proj.weight"
static const TensorRule bailing_hybrid_latent[] = {
    SOME_MATRIX("wq", "attention.q_proj", N_Q, N_DIM),
    LINEAR("wkv_a", FROM_LAYER "attention.kv_a_proj_with_mqa", N_LATENT_KV, N_DIM),
    SOME_VECTOR("kv_norm", "attention.kv_a_layernorm.weight", N_LATENT),
    {"k_b.%u",
     LING_KV_B,
     N_LATENT,
     N_REST,
     RULE_HEADS | RULE_TRANSPOSED,
     {N_NONE},
     {N_REST, N_VALUE}},
    {"v_b.%u", LING_KV_B, N_VALUE, N_LATENT, RULE_HEADS, {N_REST}, {N_REST, N_VALUE}},
    SOME_MATRIX("attention_gate", "attention.g_proj", N_HEADS, N_DIM),
    LINEAR("wo", FROM_LAYER "attention.dense", N_DIM, N_OUT),
    {0},
};
static const TensorRule bailing_hybrid_delta[] = {
    SOME_MATRIX("delta.q", "attention.q_proj", N_STATE_KEYS, N_DIM),
    SOME_MATRIX("delta.k", "attention.k_proj", N_STATE_KEYS, N_DIM),
    SOME_MATRIX("delta.v", "attention.v_proj", N_STATE_OUT, N_DIM),
    SOME_MATRIX("delta.a", "attention.f_proj", N_STATE_KEYS, N_DIM),
    SOME_MATRIX("delta.z", "attention.g_proj", N_STATE_OUT, N_DIM),
    SOME_MATRIX("delta.b", "attention.b_proj", N_STATE_HEADS, N_DIM),
    SOME_MATRIX("delta.out", "attention.dense", N_DIM, N_STATE_OUT),
    SOME("delta.decay", "attention.A_log", N_ONE, N_STATE_HEADS, RULE_MINUS_EXP, {0}, {0}),
    SOME_VECTOR("delta.step_bias", "attention.dt_bias", N_STATE_KEYS),
    SOME_VECTOR("delta.norm", "attention.o_norm.weight", N_STATE_VALUE),
    {0},
};

/* A gate is optional for layers of other families. */
static Status bailing_hybrid_more(const RuleContext *context, const json_t *json, Error *error) {
    const Config *c = &context->source->config;
    (void)json;
    for (uint32_t l = 0; l < c->n_layers; l++) {
        bool attends = c->layer_kind[l] == LAYER_LATENT;
        char name[MODELFILE_NAME_BYTES];
        snprintf(name, sizeof name, FROM_LAYER "attention.g_proj.weight", l);
        if (attends && !rules_find(context, name))
            return error_set(error, "%s: has no tensor '%s'", context->source->path, name);
        if (rules_apply_to_layer(context, attends ? bailing_hybrid_latent : bailing_hybrid_delta, l,
                                 error) != STATUS_OK)
            return STATUS_FAILED;
    }
    return convolutions_join(context, "model.layers.%u.attention.%c_conv1d.weight", error);
}

static void bailing_hybrid_preset(Config *config) {
    config->latent_norm_eps = 1e-6f; /* whatever rms_norm_eps says */
    config->rope_pairing = ROPE_INTERLEAVED;
    config->rope_theta = 6e6f;
    config->router = ROUTER_SIGMOID_SCORES;
    config->state_by_key = true;
}

/* Without layer_types every layer_group_size-th layer attends. */
static Status bailing_hybrid_kinds(const json_t *json, Config *config, Error *error) {
    static const KindName names[] = {
        {"linear_attention", LAYER_DELTA}, {"full_attention", LAYER_LATENT}, {0}};
    const json_t *types = json_value(json, "layer_types");
    uint32_t every = 0;
    if (types) return state_read_kinds(types, names, config, error);
    if (state_read_whole(json, "layer_group_size", 6, &every, error) != STATUS_OK)
        return STATUS_FAILED;
    for (uint32_t l = 0; l < config->n_layers; l++)
        config->layer_kind[l] = (l + 1) % every == 0 ? LAYER_LATENT : LAYER_DELTA;
    return STATUS_OK;
}

static Status bailing_hybrid_finish(const json_t *json, Config *config, Error *error) {
    static const RopeKeys rope;
    const char *key =
        json_value(json, "n_shared_experts") ? "n_shared_experts" : "num_shared_experts";
    double bound = json_number(json, "kda_lower_bound", -5), factor = 1;
    if (config->head_dim > 1 << 12 || config->rotary_dim > 1 << 12 || config->value_dim == 0 ||
        config->n_heads == 0)
        return error_set(error,
                         "config.json: qk_nope_head_dim %u, qk_rope_head_dim %u, v_head_dim %u",
                         config->head_dim, config->rotary_dim, config->value_dim);
    if (json_flag(json, "kda_safe_gate", true)) {
        if (!(bound < 0 && bound > -1e3))
            return error_set(error, "config.json: kda_lower_bound is %g, which must be below 0",
                             bound);
        config->state_decay_most = (float)-bound;
    }
    if (rope_score_factor(&rope, json, &factor, error) != STATUS_OK) return STATUS_FAILED;
    config->head_dim += config->rotary_dim;
    config->n_kv_heads = config->state_heads = config->state_key_heads = config->n_heads;
    config->state_value_dim = config->state_key_dim;
    config->attention_scale = (float)(1.0 / sqrt((double)config->head_dim) * factor);
    if (family_shared_width(json, key, 1, config, error) != STATUS_OK) return STATUS_FAILED;
    return bailing_hybrid_kinds(json, config, error);
}

/* ---- MiniMax-01: lightning attention, residuals of norms ---- */

static const ConfigRule minimax_config[] = {
    SIZE_KEYS(32000, 4096, 14336, 32, 32),
    MOE_KEYS(8, 0, 131072, 1e-5),
    EXPERT_KEYS("num_local_experts|num_experts", 8, 2, "intermediate_size", 14336),
    {0},
};

/* qkv_proj holds, for each head, its query, key and value. */
#define MINIMAX_QKV(to, ...)                                                                       \
    SOME(to, "self_attn.qkv_proj.weight", N_STATE_OUT, N_DIM, RULE_BY_STATE_KEY, __VA_ARGS__,      \
         {N_STATE_MIXED})
static const TensorRule minimax_tensors[] = {
    LLAMA_EMBEDDING,
    LLAMA_NORMS,
    SOME_QKV,
    SOME_LINEAR("wo", "self_attn.o_proj", N_DIM, N_OUT),
    MINIMAX_QKV("lightning.q", {N_NONE}),
    MINIMAX_QKV("lightning.k", {N_STATE_KEYS}),
    MINIMAX_QKV("lightning.v", {N_STATE_KEYS, N_STATE_KEYS}),
    SOME_MATRIX("lightning.gate", "self_attn.output_gate", N_STATE_OUT, N_DIM),
    SOME_MATRIX("lightning.out", "self_attn.out_proj", N_DIM, N_STATE_OUT),
    SOME_VECTOR("lightning.norm", "self_attn.norm.weight", N_STATE_OUT),
    SOME_VECTOR("lightning.slope", "self_attn.slope_rate", N_STATE_HEADS),
    SOME_MATRIX("router", "block_sparse_moe.gate", N_EXPERTS, N_DIM),
    SOME_MATRIX("experts.%u.w_gate", "block_sparse_moe.experts.%u.w1", N_EXPERT_FFN, N_DIM),
    SOME_MATRIX("experts.%u.w_up", "block_sparse_moe.experts.%u.w3", N_EXPERT_FFN, N_DIM),
    SOME_MATRIX("experts.%u.w_down", "block_sparse_moe.experts.%u.w2", N_DIM, N_EXPERT_FFN),
    LLAMA_END,
    {0},
};

/* Adds the slopes of layers whose file has none. */
static Status minimax_more(const RuleContext *context, const json_t *json, Error *error) {
    const Config *c = &context->source->config;
    (void)json;
    for (uint32_t l = 0; l < c->n_layers; l++) {
        char name[MODELFILE_NAME_BYTES];
        snprintf(name, sizeof name, "model.layers.%u.self_attn.slope_rate", l);
        if (c->layer_kind[l] == LAYER_LIGHTNING && !rules_find(context, name) &&
            family_add_slopes(context, l, error) != STATUS_OK)
            return STATUS_FAILED;
    }
    return STATUS_OK;
}

static void minimax_preset(Config *config) {
    config->norm_place = NORM_STREAM;
    config->router = ROUTER_SOFTMAX_CHOSEN;
    config->rope_theta = 1e6f;
    config->state_norm_eps = 1e-6f; /* whatever rms_norm_eps is */
}

/* Reads the factors of the residual, alpha, and of what is added to it, beta, which must be the
 * same for attention, lightning attention and feed-forwards. A norm follows every sum, so that only
 * their ratio matters if epsilon and embedding are scaled as well. */
static Status minimax_factors(const json_t *json, Config *config, Error *error) {
    static const char *const keys[2][3] = {
        {"full_attn_alpha_factor", "linear_attn_alpha_factor", "mlp_alpha_factor"},
        {"full_attn_beta_factor", "linear_attn_beta_factor", "mlp_beta_factor"}};
    double factors[2];
    for (int i = 0; i < 2; i++) {
        factors[i] = json_number(json, keys[i][0], 1);
        for (int k = 0; k < 3; k++) {
            double other = json_number(json, keys[i][k], 1);
            if (!(other > 1e-3 && other < 1e3) || other != factors[i])
                return error_set(error,
                                 "config.json: %s is %g and %s %g: this program needs equal "
                                 "factors above 0",
                                 keys[i][0], factors[i], keys[i][k], other);
        }
    }
    config->residual_scale = (float)(factors[1] / factors[0]);
    config->embedding_scale = (float)(1.0 / factors[0]);
    config->norm_eps = (float)((double)config->norm_eps / (factors[0] * factors[0]));
    return STATUS_OK;
}

/* Without layer_types every second layer attends, from the first on. */
static Status minimax_finish(const json_t *json, Config *config, Error *error) {
    static const KindName names[] = {
        {"linear_attention", LAYER_LIGHTNING}, {"full_attention", LAYER_ATTENTION}, {0}};
    const json_t *types = json_value(json, "layer_types");
    uint32_t window = 0;
    if (minimax_factors(json, config, error) != STATUS_OK ||
        (json_value(json, "sliding_window") &&
         state_read_whole(json, "sliding_window", 0, &window, error) != STATUS_OK))
        return STATUS_FAILED;
    config->state_heads = config->state_key_heads = config->n_heads;
    config->state_key_dim = config->state_value_dim = config->head_dim;
    for (uint32_t l = 0; l < config->n_layers; l++)
        config->layer_kind[l] = l % 2 ? LAYER_LIGHTNING : LAYER_ATTENTION;
    if (types && state_read_kinds(types, names, config, error) != STATUS_OK) return STATUS_FAILED;
    for (uint32_t l = 0; l < config->n_layers; l++)
        config->window[l] = config->layer_kind[l] == LAYER_ATTENTION ? window : 0;
    return STATUS_OK;
}

const Family families_linear[] = {
    {"lfm3", lfm3_config, lfm3_tensors, lfm3_preset, lfm3_finish, lfm3_more, .biases = lfm3_biases,
     .rope = LFM3_ROPE, .tied = true, .bos_id = 124894, .eos_id = 124900},
    {"olmo_hybrid", olmo_hybrid_config, olmo_hybrid_tensors, olmo_hybrid_preset, olmo_hybrid_finish,
     olmo_hybrid_more, .biases = olmo_hybrid_biases, .fixed = silu_fixed, .bos_id = -1,
     .eos_id = 100257},
    {"kimi_linear", kimi_linear_config, kimi_linear_tensors, kimi_linear_preset, kimi_linear_finish,
     kimi_linear_more, .biases = kimi_linear_biases, .fixed = silu_fixed, .rope = {.none = true},
     .bos_id = 163584, .eos_id = 163586},
    {"bailing_hybrid", bailing_hybrid_config, bailing_hybrid_tensors, bailing_hybrid_preset,
     bailing_hybrid_finish, bailing_hybrid_more, .biases = bailing_hybrid_biases,
     .fixed = silu_fixed, .bos_id = -1, .eos_id = 156895},
    {"minimax", minimax_config, minimax_tensors, minimax_preset, minimax_finish, minimax_more,
     .bos_id = 1, .eos_id = 2},
    {0},
};
