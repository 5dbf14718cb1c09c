/* Families with hyper-connections that mix their residual streams (layers/hyper.c): GLM-5 Next. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/convolutions.h"
#include "formats/json.h"
#include "formats/state_rules.h"

/* ---- What they share ---- */

/* The streams, and the limits of all feed-forwards' gates. */
#define STREAM_KEYS                                                                                \
    {"hc_mult", "altup_streams", 4}, {"hc_eps", "hyper_eps", 1e-6},                                \
        {"hc_sinkhorn_iters", "hyper_rounds", 20}, {                                               \
        "swiglu_limit", "swiglu_limit", 10                                                         \
    }

/* A map of the streams. Checkpoints and transformers have names of their own. */
#define STREAM_MAP(to, from)                                                                       \
    OPTIONAL(to, FROM_LAYER from "fn", N_STREAM_SHARES, N_STREAMS_DIM),                            \
        OPTIONAL(to ".base", FROM_LAYER from "base", N_ONE, N_STREAM_SHARES),                      \
        OPTIONAL(to ".scale", FROM_LAYER from "scale", N_ONE, N_THREE)
#define STREAM_MAPS                                                                                \
    STREAM_MAP("hyper.attention", "hc_attn_"), STREAM_MAP("hyper.ffn", "hc_ffn_"),                 \
        STREAM_MAP("hyper.attention", "attn_hc."), STREAM_MAP("hyper.ffn", "ffn_hc.")

static void streams_preset(Config *config) {
    config->stack = STACK_HYPER;
    config->hyper_scale = 2.0f;
    config->limit_first = true;
}

/* Zeros that mean something else, or nothing, in the classes. */
static Status refuse_zeros(const json_t *json, Error *error) {
    static const char *const keys[] = {"hc_mult", "hc_sinkhorn_iters", "swiglu_limit"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (family_refuse_zero(json, keys[i], error) != STATUS_OK) return STATUS_FAILED;
    return STATUS_OK;
}

/* ---- GLM-5 Next: delta attention with decays by key, latent attention to pools of positions ----
 */

static const ConfigRule glm5_next_config[] = {
    SIZE_KEYS(154880, 4096, 12288, 45, 64),
    {"kv_lora_rank", "latent_dim", 512},
    {"q_lora_rank", "latent_q_dim", 1536},
    {"qk_nope_head_dim", "head_dim", 256},
    {"v_head_dim", "value_dim", 256},
    CONTEXT(1048576),
    {"rms_norm_eps", "norm_eps", 1e-5},
    EXPERT_KEYS(ROUTED_EXPERTS, 288, 8, "moe_intermediate_size", 2048),
    GROUP_KEYS(1, 2.5),
    {"index_topk", "index_topk", 2048},
    {"index_head_dim", "index_dim", 128},
    {"index_n_heads", "index_heads", 32},
    {"index_kpool", "index_pool", 16},
    STREAM_KEYS,
    {0},
};
/* Without the tail, the first queries would see nothing, of which transformers makes the mean of
 * all positions, also of later ones. */
static const FixedKey glm5_next_fixed[] = {{"hidden_act", "\"silu\""},
                                           {"qk_rope_head_dim", "0"},
                                           {"index_kpool_always_select_tail", "true"},
                                           {0}};
static const BiasRule glm5_next_biases[] = {
    {" wq_a wkv_a wo ", "attention_bias", false}, {" indexer.k_norm ", NULL, true}, {0}};

static const TensorRule glm5_next_tensors[] = {
    LLAMA_EMBEDDING,
    LLAMA_NORMS,
    STREAM_MAPS,
    DENSE_OR_EXPERTS,
    CORRECTION("mlp.gate.e_score_correction_bias"),
    SHARED("mlp.shared_experts."),
    LLAMA_END,
    {0},
};
#define GLM5_KV_B FROM_LAYER "self_attn.kv_b_proj.weight"
#define FROM_INDEXER "self_attn.indexer."
static const TensorRule glm5_next_latent[] = {
    SOME_LINEAR("wq_a", "self_attn.q_a_proj", N_LATENT_Q, N_DIM),
    SOME_VECTOR("q_norm", "self_attn.q_a_layernorm.weight", N_LATENT_Q),
    SOME_MATRIX("wq_b", "self_attn.q_b_proj", N_Q, N_LATENT_Q),
    SOME_LINEAR("wkv_a", "self_attn.kv_a_proj_with_mqa", N_LATENT_KV, N_DIM),
    SOME_VECTOR("kv_norm", "self_attn.kv_a_layernorm.weight", N_LATENT),
    {"k_b.%u",
     GLM5_KV_B,
     N_LATENT,
     N_REST,
     RULE_HEADS | RULE_TRANSPOSED,
     {N_NONE},
     {N_REST, N_VALUE}},
    {"v_b.%u", GLM5_KV_B, N_VALUE, N_LATENT, RULE_HEADS, {N_REST}, {N_REST, N_VALUE}},
    SOME_LINEAR("wo", "self_attn.o_proj", N_DIM, N_OUT),
    SOME_MATRIX("indexer.wq", FROM_INDEXER "wq_b", N_INDEX_Q, N_LATENT_Q),
    SOME_MATRIX("indexer.wk", FROM_INDEXER "wk", N_INDEX, N_DIM),
    SOME_VECTOR("indexer.k_norm", FROM_INDEXER "k_norm.weight", N_INDEX),
    SOME_VECTOR("indexer.k_norm.bias", FROM_INDEXER "k_norm.bias", N_INDEX),
    SOME("indexer.weights", FROM_INDEXER "weights_proj.weight", N_INDEX_HEADS, N_DIM, RULE_MATRIX,
         {0}, {0}),
    SOME("indexer.pool_gate", FROM_INDEXER "index_kpool_compress_gate", N_INDEX, N_DIM, RULE_MATRIX,
         {0}, {0}),
    SOME("indexer.pool_bias", FROM_INDEXER "index_kpool_compress_ape", N_INDEX_POOL, N_INDEX,
         RULE_VECTOR, {0}, {0}),
    {0},
};
static const TensorRule glm5_next_delta[] = {KIMI_DELTA, {0}};

static Status glm5_next_more(const RuleContext *context, const json_t *json, Error *error) {
    const Config *c = &context->source->config;
    (void)json;
    for (uint32_t l = 0; l < c->n_layers; l++) {
        bool attends = c->layer_kind[l] == LAYER_LATENT;
        if (rules_apply_to_layer(context, attends ? glm5_next_latent : glm5_next_delta, l, error) !=
            STATUS_OK)
            return STATUS_FAILED;
    }
    return convolutions_join(context, "model.layers.%u.self_attn.%c_conv1d.weight", error);
}

static void glm5_next_preset(Config *config) {
    streams_preset(config);
    config->position = POSITION_NONE;
    config->router = ROUTER_SIGMOID_SCORES;
    config->state_by_key = true;
}

/* Without layer_types every fourth layer attends. */
static Status glm5_next_kinds(const json_t *json, Config *config, Error *error) {
    static const KindName names[] = {{"linear_attention", LAYER_DELTA},
                                     {"indexed_attention", LAYER_LATENT},
                                     {"full_attention", LAYER_LATENT},
                                     {0}};
    const json_t *types = json_value(json, "layer_types");
    if (types) return state_read_kinds(types, names, config, error);
    for (uint32_t l = 0; l < config->n_layers; l++)
        config->layer_kind[l] = l % 4 == 3 ? LAYER_LATENT : LAYER_DELTA;
    return STATUS_OK;
}

/* A layer that takes the choice of the layer before it needs one that has chosen: transformers
 * passes a choice on once. */
static Status check_sharing(const Config *c, Error *error) {
    for (uint32_t l = 0; l < c->n_layers; l++)
        if (c->indexer[l] == INDEXER_SHARED && (l == 0 || c->indexer[l - 1] != INDEXER_OWN))
            return error_set(error,
                             "config.json: layer %u shares the choice of a layer that does not "
                             "choose",
                             l);
    return STATUS_OK;
}

/* The least logarithm of a decay; null: none. linear_attn_config takes a null back unless its
 * safe_gate is false. */
static Status glm5_next_bound(const json_t *json, Config *config, Error *error) {
    const json_t *linear = json_object_get(json, "linear_attn_config");
    const json_t *outer = json_object_get(json, "linear_lower_bound");
    const json_t *inner = json_object_get(linear, "gate_lower_bound");
    const json_t *bound = inner ? inner : outer;
    double value = json_is_number(bound) ? json_number_value(bound) : -5;
    if (json_is_null(bound) && !(json_is_object(linear) && json_flag(linear, "safe_gate", true)))
        return STATUS_OK;
    if (!(value < 0 && value > -1e3))
        return error_set(error, "config.json: linear_lower_bound is %g, which must be below 0",
                         value);
    config->state_decay_most = (float)-value;
    return STATUS_OK;
}

static Status glm5_next_finish(const json_t *json, Config *config, Error *error) {
    if (refuse_zeros(json, error) != STATUS_OK ||
        family_refuse_zero(json, "index_kpool", error) != STATUS_OK ||
        state_linear_sizes(json, 64, config, error) != STATUS_OK ||
        glm5_next_bound(json, config, error) != STATUS_OK ||
        glm5_next_kinds(json, config, error) != STATUS_OK ||
        family_indexers(json, config, error) != STATUS_OK)
        return STATUS_FAILED;
    if (config->head_dim > 1 << 12 || config->head_dim == 0 || config->value_dim == 0 ||
        config->latent_q_dim == 0)
        return error_set(error, "config.json: qk_nope_head_dim %u, v_head_dim %u, q_lora_rank %u",
                         config->head_dim, config->value_dim, config->latent_q_dim);
    for (uint32_t l = 0; l < config->n_layers; l++)
        if (config->layer_kind[l] != LAYER_LATENT) config->indexer[l] = INDEXER_NONE;
    config->n_kv_heads = config->n_heads;
    config->latent_norm_eps = config->norm_eps;
    config->attention_scale = (float)(1.0 / sqrt((double)config->head_dim));
    if (family_shared_width(json, "n_shared_experts", 1, config, error) != STATUS_OK)
        return STATUS_FAILED;
    return check_sharing(config, error);
}

const Family families_streams[] = {
    {"glm5_next_text", glm5_next_config, glm5_next_tensors, glm5_next_preset, glm5_next_finish,
     glm5_next_more, .biases = glm5_next_biases, .fixed = glm5_next_fixed, .rope = {.none = true},
     .bos_id = -1, .eos_id = -1},
    {0},
};
