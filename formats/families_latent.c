/* Families with latent attention (layers/latent.h): DeepSeek V2 and V3, and what follows them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/gate_limits.h"
#include "formats/json.h"
#include "formats/latent_rules.h"

/* ---- Keys ---- */

static const ConfigRule deepseek_v2_config[] = {
    SIZE_KEYS(102400, 4096, 11008, 32, 32),
    LATENT_KEYS(512, 1536, 128, 64, 128),
    REST_KEYS(2048, 1e-6),
    EXPERT_KEYS("n_routed_experts|num_experts", 64, REQUIRED, "moe_intermediate_size", 1407),
    {"n_group", "router_groups", 0},
    {"topk_group", "router_groups_used", 0},
    {"routed_scaling_factor", "router_scale", 1},
    {0},
};
static const ConfigRule deepseek_v3_config[] = {
    SIZE_KEYS(129280, 7168, 18432, 61, 128),
    LATENT_KEYS(512, 1536, 128, 64, 128),
    REST_KEYS(4096, 1e-6),
    EXPERT_KEYS(ROUTED_EXPERTS, 256, 8, "moe_intermediate_size", 2048),
    {"n_group", "router_groups", 8},
    {"topk_group", "router_groups_used", 4},
    {"norm_topk_prob", "router_normalize", 1},
    {"routed_scaling_factor", "router_scale", 2.5},
    {0},
};
static const ConfigRule deepseek_v32_config[] = {
    SIZE_KEYS(129280, 7168, 18432, 61, 128),
    LATENT_KEYS(512, 1536, 128, 64, 128),
    REST_KEYS(163840, 1e-6),
    EXPERT_KEYS(ANY_EXPERTS, 256, 8, "moe_intermediate_size", 2048),
    {"n_group", "router_groups", 8},
    {"topk_group", "router_groups_used", 4},
    {"norm_topk_prob", "router_normalize", 1},
    {"routed_scaling_factor", "router_scale", 2.5},
    INDEX_KEYS(64),
    {0},
};
static const ConfigRule glm_moe_dsa_config[] = {
    SIZE_KEYS(154880, 6144, 12288, 78, 64),
    LATENT_KEYS(512, 2048, 192, 64, 256),
    REST_KEYS(202752, 1e-5),
    EXPERT_KEYS(ANY_EXPERTS, 256, 8, "moe_intermediate_size", 2048),
    GROUP_KEYS(1, 2.5),
    INDEX_KEYS(32),
    {0},
};
static const ConfigRule axk2_config[] = {
    SIZE_KEYS(163840, 2048, 5120, 48, 32),
    LATENT_KEYS(128, 384, 64, 32, 64),
    REST_KEYS(131072, 1e-6),
    EXPERT_KEYS(ROUTED_EXPERTS, 128, 8, "moe_intermediate_size", 512),
    {"n_group", "router_groups", 0},
    {"topk_group", "router_groups_used", 0},
    {"norm_topk_prob", "router_normalize", 1},
    {"routed_scaling_factor", "router_scale", 2.5},
    {"gated_norm_rank", "adapter_rank", 16},
    INDEX_KEYS(16),
    {0},
};
static const ConfigRule hy_v4_config[] = {
    SIZE_KEYS(120832, 2816, 6912, 34, 32),
    LATENT_KEYS(512, 1536, 192, 64, 256),
    REST_KEYS(262144, 1e-5),
    EXPERT_KEYS(ROUTED_EXPERTS, 256, 8, "moe_intermediate_size", 768),
    GROUP_KEYS(1, 2.827),
    INDEX_KEYS(16),
    {"hc_mult", "altup_streams", 4},
    {"hc_magnitude", "hyper_scale", 2},
    {"hc_eps", "hyper_eps", 1e-6},
    {0},
};
static const ConfigRule axk1_config[] = {
    SIZE_KEYS(163840, 7168, 18432, 61, 64),
    LATENT_KEYS(512, 1536, 128, 64, 128),
    REST_KEYS(32768, 1e-6),
    EXPERT_KEYS(ROUTED_EXPERTS, 192, 8, "moe_intermediate_size", 2048),
    {"n_group", "router_groups", 8},
    {"topk_group", "router_groups_used", 4},
    {"norm_topk_prob", "router_normalize", 1},
    {"routed_scaling_factor", "router_scale", 2.5},
    {0},
};
static const ConfigRule longcat_flash_config[] = {
    {"vocab_size", "vocab_size", 131072},
    {"hidden_size", "dim", 6144},
    {"ffn_hidden_size|intermediate_size", "ffn_dim", 12288},
    {"num_attention_heads", "n_heads", 64},
    LATENT_KEYS(512, 1536, 128, 64, 128),
    REST_KEYS(131072, 1e-5),
    {"n_routed_experts|num_local_experts", "n_experts", 512},
    {"moe_topk|num_experts_per_tok", "n_experts_used", 12},
    {"expert_ffn_hidden_size|moe_intermediate_size", "expert_ffn_dim", 2048},
    {"zero_expert_num", "zero_experts", 256},
    {"routed_scaling_factor", "router_scale", 6},
    {0},
};
/* Its files' keys that transformers does not read, and a bias that it does not add. */
/* Hy 4's experts take SiLU whatever hidden_act says, its other feed-forwards do not. */
static const FixedKey hy_v4_fixed[] = {{"hidden_act", "\"silu\""}, {0}};
static const FixedKey longcat_flash_fixed[] = {
    {"zero_expert_type", "\"identity\""},
    {"mla_scale_q_lora", "true"},
    {"mla_scale_kv_lora", "true"},
    {"router_bias", "false"},
    {0},
};
static const ConfigRule glm4_moe_lite_config[] = {
    SIZE_KEYS(154880, 2048, 10240, 47, 20),
    LATENT_KEYS(512, 768, 192, 64, 256),
    REST_KEYS(202752, 1e-5),
    EXPERT_KEYS(ROUTED_EXPERTS, 64, 4, "moe_intermediate_size", 1536),
    GROUP_KEYS(1, 1.8),
    {0},
};
static const ConfigRule mistral4_config[] = {
    SIZE_KEYS(131072, 4096, 12288, 36, 32),
    LATENT_KEYS(256, 1024, 64, 64, 128),
    REST_KEYS(1048576, 1e-6),
    EXPERT_KEYS(ROUTED_EXPERTS, 128, 4, "moe_intermediate_size", 2048),
    GROUP_KEYS(1, 1),
    {0},
};
/* Its RoPE where config.json has no parameters. */
#define MISTRAL4_ROPE                                                                              \
    {                                                                                              \
        .absent = "{\"type\": \"yarn\", \"rope_theta\": 10000.0, \"factor\": 128.0, "              \
                  "\"beta_fast\": 32.0, \"beta_slow\": 1.0, "                                      \
                  "\"original_max_position_embeddings\": 8192, "                                   \
                  "\"mscale\": 1.0, \"mscale_all_dim\": 1.0, \"llama_4_scaling_beta\": 0.1}"       \
    }
static const ConfigRule youtu_config[] = {
    SIZE_KEYS(128256, 2048, 6144, 32, 16),
    LATENT_KEYS(512, 1536, 128, 64, 128),
    REST_KEYS(131072, 1e-6),
    {0},
};
static const ConfigRule minicpm3_config[] = {
    SIZE_KEYS(73448, 2560, 6400, 62, 40),
    LATENT_KEYS(256, 768, 64, 32, 0),
    REST_KEYS(32768, 1e-5),
    {"scale_emb", "embedding_scale", 12},
    {0},
};

/* ---- Biases ---- */

static const BiasRule attention_biases[] = {LATENT_BIASES, {0}};
static const BiasRule indexed_biases[] = {LATENT_BIASES, {" indexer.k_norm ", NULL, true}, {0}};
static const BiasRule all_biases[] = {LATENT_BIASES, {DENSE_AND_SHARED, "mlp_bias", false}, {0}};

/* ---- Tensors ---- */

/* The matrix that makes keys and values of the latent holds for each head first the key's rows. */
#define KV_B FROM_LAYER "self_attn.kv_b_proj.weight"
#define LATENT_ATTENTION                                                                           \
    MAYBE("wq", "self_attn.q_proj", N_Q, N_DIM),                                                   \
        MAYBE_LINEAR("wq_a", "self_attn.q_a_proj", N_LATENT_Q, N_DIM),                             \
        MAYBE("q_norm", "self_attn.q_a_layernorm", N_ONE, N_LATENT_Q),                             \
        MAYBE("wq_b", "self_attn.q_b_proj", N_Q, N_LATENT_Q), LATENTS
#define LATENTS                                                                                    \
    LINEAR("wkv_a", FROM_LAYER "self_attn.kv_a_proj_with_mqa", N_LATENT_KV, N_DIM),                \
        {"kv_norm", FROM_LAYER "self_attn.kv_a_layernorm.weight", N_ONE, N_LATENT, 0, {0}, {0}},   \
        {"k_b.%u",         KV_B, N_LATENT, N_REST, RULE_HEADS | RULE_TRANSPOSED, {N_NONE},         \
         {N_REST, N_VALUE}},                                                                       \
        {"v_b.%u", KV_B, N_VALUE, N_LATENT, RULE_HEADS, {N_REST}, {N_REST, N_VALUE}},              \
        LINEAR("wo", FROM_LAYER "self_attn.o_proj", N_DIM, N_OUT)

/* Files of Mistral 4 stack the experts: gate and up of all in one tensor, down in another. */
#define STACKED_EXPERTS                                                                            \
    {"experts.%u.w_gate",                                                                          \
     FROM_LAYER "mlp.experts.gate_up_proj",                                                        \
     N_EXPERT_FFN,                                                                                 \
     N_DIM,                                                                                        \
     RULE_OPTIONAL,                                                                                \
     {0},                                                                                          \
     {N_EXPERT_FFN, N_EXPERT_FFN}},                                                                \
        {"experts.%u.w_up",                                                                        \
         FROM_LAYER "mlp.experts.gate_up_proj",                                                    \
         N_EXPERT_FFN,                                                                             \
         N_DIM,                                                                                    \
         RULE_OPTIONAL,                                                                            \
         {N_EXPERT_FFN},                                                                           \
         {N_EXPERT_FFN, N_EXPERT_FFN}},                                                            \
        OPTIONAL("experts.%u.w_down", FROM_LAYER "mlp.experts.down_proj", N_DIM, N_EXPERT_FFN)

#define EXPERTS_TENSORS                                                                            \
    LLAMA_EMBEDDING, LLAMA_NORMS, LATENT_ATTENTION, DENSE_OR_EXPERTS, STACKED_EXPERTS,             \
        DENSE_BIASES, CORRECTION("mlp.gate.e_score_correction_bias"),                              \
        SHARED("mlp.shared_experts."), LLAMA_END
static const TensorRule experts_tensors[] = {EXPERTS_TENSORS, {0}};

/* Layers that share the choice of the layer before have no indexer. */
#define FROM_INDEXER FROM_LAYER "self_attn.indexer."
#define INDEXER                                                                                    \
    OPTIONAL("indexer.wq", FROM_INDEXER "wq_b.weight", N_INDEX_Q, N_LATENT_Q),                     \
        OPTIONAL("indexer.wk", FROM_INDEXER "wk.weight", N_INDEX, N_DIM),                          \
        OPTIONAL_NORM("indexer.k_norm", FROM_INDEXER "k_norm", N_INDEX), {                         \
        "indexer.weights", FROM_INDEXER "weights_proj.weight", N_INDEX_HEADS, N_DIM,               \
            RULE_OPTIONAL | RULE_MATRIX, {0}, {                                                    \
            0                                                                                      \
        }                                                                                          \
    }
static const TensorRule indexed_tensors[] = {EXPERTS_TENSORS, INDEXER, {0}};

/* A.X K2: norms with gates, and one matrix that holds, for each head, its query and the gate of its
 * output. */
#define Q_GATE(to, rows, skip)                                                                     \
    {                                                                                              \
        to, FROM_LAYER "self_attn.q_b_proj.weight", rows, N_LATENT_QS, RULE_BY_HEAD, {skip}, {     \
            N_Q, N_OUT                                                                             \
        }                                                                                          \
    }
static const TensorRule axk2_tensors[] = {
    LLAMA_EMBEDDING,
    {"attention_norm", FROM_LAYER "input_layernorm.norm.weight", N_ONE, N_DIM, 0, {0}, {0}},
    MAYBE("ffn_norm", "post_attention_layernorm", N_ONE, N_DIM),
    MAYBE("ffn_norm", "post_attention_layernorm.norm", N_ONE, N_DIM),
    LINEAR("attention_norm.gate_down", FROM_LAYER "input_layernorm.W_down", N_ADAPTER, N_DIM),
    LINEAR("attention_norm.gate_up", FROM_LAYER "input_layernorm.W_up", N_DIM, N_ADAPTER),
    MAYBE("ffn_norm.gate_down", "post_attention_layernorm.W_down", N_ADAPTER, N_DIM),
    MAYBE("ffn_norm.gate_up", "post_attention_layernorm.W_up", N_DIM, N_ADAPTER),
    LINEAR("wq_a", FROM_LAYER "self_attn.q_a_proj", N_LATENT_Q, N_DIM),
    MAYBE("q_norm", "self_attn.q_a_layernorm", N_ONE, N_LATENT_Q),
    Q_GATE("wq_b", N_Q, N_NONE),
    Q_GATE("attention_gate", N_OUT, N_Q),
    LATENTS,
    DENSE_OR_EXPERTS,
    CORRECTION("mlp.gate.e_score_correction_bias"),
    SHARED("mlp.shared_experts."),
    LLAMA_END,
    INDEXER,
    {0},
};

/* Hy 4: hyper-connections, gates and sinks of attention. transformers writes some of the names in
 * another way than they are in the checkpoints, and reads both. */
#define HYPER(to, from)                                                                            \
    OPTIONAL(to, FROM_LAYER from "fn", N_STREAM_SHARES, N_STREAMS_DIM),                            \
        OPTIONAL(to ".base", FROM_LAYER from "base", N_ONE, N_STREAM_SHARES),                      \
        OPTIONAL(to ".scale", FROM_LAYER from "scale", N_ONE, N_TWO)
#define HYPER_END(from)                                                                            \
    {"hyper.end", "model." from "fn", N_STREAMS, N_STREAMS_DIM, RULE_OPTIONAL | RULE_MATRIX, {0},  \
     {0}},                                                                                         \
        OPTIONAL("hyper.end.base", "model." from "base", N_ONE, N_STREAMS),                        \
        OPTIONAL("hyper.end.scale", "model." from "scale", N_ONE, N_ONE)
static const TensorRule hy_v4_tensors[] = {
    EXPERTS_TENSORS,
    INDEXER,
    {"attention_gate", FROM_LAYER "self_attn.linear_gate.weight", N_OUT, N_DIM, 0, {0}, {0}},
    {"sinks", FROM_LAYER "self_attn.learnable_sink_param", N_ONE, N_HEADS, 0, {0}, {0}},
    HYPER("hyper.attention", "hc_attn_layer.hc_pre.hc_"),
    HYPER("hyper.ffn", "hc_mlp_layer.hc_pre.hc_"),
    HYPER_END("hc_head.hc_head_"),
    HYPER("hyper.attention", "hc_pre.hc_attn_layer.hc_"), /* as transformers writes it */
    HYPER("hyper.ffn", "hc_pre.hc_mlp_layer.hc_"),
    HYPER_END("hc_pre.hc_head.hc_head_"),
    MAYBE("w_gate", "mlp.linear_gate", N_FFN, N_DIM),
    MAYBE("shared.w_gate", "mlp.shared_experts.linear_gate", N_SHARED_FFN, N_DIM),
    {0},
};
/* LongCat-Flash: one layer of the files is two of ours, of which the first has the mixture. */
#define PAIR(to, from, rows, cols)                                                                 \
    {                                                                                              \
        to, FROM_LAYER from ".weight", rows, cols, RULE_PAIR, {0}, {                               \
            0                                                                                      \
        }                                                                                          \
    }
#define FIRST(to, from, rows, cols, flags)                                                         \
    {                                                                                              \
        to, FROM_LAYER from, rows, cols, RULE_PAIR | RULE_FIRST | (flags), {0}, {                  \
            0                                                                                      \
        }                                                                                          \
    }
#define PAIR_BIAS(to, from, rows)                                                                  \
    {                                                                                              \
        to ".bias", FROM_LAYER from ".bias", N_ONE, rows, RULE_PAIR | RULE_OPTIONAL, {0}, {        \
            0                                                                                      \
        }                                                                                          \
    }
#define PAIR_KV_B FROM_LAYER "self_attn.%p.kv_b_proj.weight"
static const TensorRule longcat_flash_tensors[] = {
    LLAMA_EMBEDDING,
    PAIR("attention_norm", "input_layernorm.%p", N_ONE, N_DIM),
    PAIR("ffn_norm", "post_attention_layernorm.%p", N_ONE, N_DIM),
    PAIR("wq_a", "self_attn.%p.q_a_proj", N_LATENT_Q, N_DIM),
    PAIR_BIAS("wq_a", "self_attn.%p.q_a_proj", N_LATENT_Q),
    PAIR("q_norm", "self_attn.%p.q_a_layernorm", N_ONE, N_LATENT_Q),
    PAIR("wq_b", "self_attn.%p.q_b_proj", N_Q, N_LATENT_Q),
    PAIR("wkv_a", "self_attn.%p.kv_a_proj_with_mqa", N_LATENT_KV, N_DIM),
    PAIR_BIAS("wkv_a", "self_attn.%p.kv_a_proj_with_mqa", N_LATENT_KV),
    PAIR("kv_norm", "self_attn.%p.kv_a_layernorm", N_ONE, N_LATENT),
    {"k_b.%u",
     PAIR_KV_B,
     N_LATENT,
     N_REST,
     RULE_PAIR | RULE_HEADS | RULE_TRANSPOSED,
     {N_NONE},
     {N_REST, N_VALUE}},
    {"v_b.%u", PAIR_KV_B, N_VALUE, N_LATENT, RULE_PAIR | RULE_HEADS, {N_REST}, {N_REST, N_VALUE}},
    PAIR("wo", "self_attn.%p.o_proj", N_DIM, N_OUT),
    PAIR_BIAS("wo", "self_attn.%p.o_proj", N_DIM),
    PAIR("w_gate", "mlps.%p.gate_proj", N_FFN, N_DIM),
    PAIR("w_up", "mlps.%p.up_proj", N_FFN, N_DIM),
    PAIR("w_down", "mlps.%p.down_proj", N_DIM, N_FFN),
    FIRST("router", "mlp.router.classifier.weight", N_EXPERTS, N_DIM, 0),
    FIRST("router.correction", "mlp.router.e_score_correction_bias", N_ONE, N_EXPERTS,
          RULE_OPTIONAL),
    FIRST("experts.%u.w_gate", "mlp.experts.%u.gate_proj.weight", N_EXPERT_FFN, N_DIM, 0),
    FIRST("experts.%u.w_up", "mlp.experts.%u.up_proj.weight", N_EXPERT_FFN, N_DIM, 0),
    FIRST("experts.%u.w_down", "mlp.experts.%u.down_proj.weight", N_DIM, N_EXPERT_FFN, 0),
    LLAMA_END,
    {0},
};
static const TensorRule dense_tensors[] = {
    LLAMA_EMBEDDING, LLAMA_NORMS, LATENT_ATTENTION, LLAMA_FFN, LLAMA_END, {0},
};

/* ---- Fields that no key gives, and keys that a rule cannot describe ---- */

void latent_preset(Config *config) {
    config->latent_norm_eps = 1e-6f; /* whatever rms_norm_eps says */
    config->rope_pairing = ROPE_INTERLEAVED;
    config->router = ROUTER_SIGMOID_SCORES;
}

static void deepseek_v2_preset(Config *config) {
    latent_preset(config);
    config->router = ROUTER_SOFTMAX_SCORES;
}

void mistral4_preset(Config *config) {
    deepseek_v2_preset(config);
    config->router_group_pairs = true;
}

static void minicpm3_preset(Config *config) {
    latent_preset(config);
    config->rope_pairing = ROPE_HALVES;
}

Status latent_heads(const json_t *json, const RopeKeys *rope, Config *config, Error *error) {
    double factor = 1.0;
    if (json_number(json, "qk_nope_head_dim", 1) < 1 || config->head_dim > 1 << 12 ||
        config->rotary_dim == 0 || config->rotary_dim > 1 << 12)
        return error_set(error,
                         "config.json: heads of qk_nope_head_dim %g and qk_rope_head_dim %u cannot "
                         "be computed",
                         json_number(json, "qk_nope_head_dim", config->head_dim),
                         config->rotary_dim);
    if (config->value_dim == 0 || config->latent_dim == 0)
        return error_set(error, "config.json: v_head_dim is %u, kv_lora_rank %u", config->value_dim,
                         config->latent_dim);
    if (rope_score_factor(rope, json, &factor, error) != STATUS_OK) return STATUS_FAILED;
    config->head_dim += config->rotary_dim;
    config->n_kv_heads = config->n_heads;
    config->attention_scale = (float)(1.0 / sqrt((double)config->head_dim) * factor);
    for (uint32_t i = 0; i < config->n_layers; i++) config->layer_kind[i] = LAYER_LATENT;
    return STATUS_OK;
}

static const RopeKeys plain_rope;

static Status deepseek_v2_finish(const json_t *json, Config *config, Error *error) {
    const char *method = json_text(json, "topk_method");
    if (!method || strcmp(method, "greedy") == 0) {
        config->router_groups = config->router_groups_used = 0;
    } else if (strcmp(method, "group_limited_greedy") != 0) {
        return error_set(error, "config.json: topk_method '%.40s' is not known", method);
    }
    if (family_shared_width(json, "n_shared_experts", 2, config, error) != STATUS_OK)
        return STATUS_FAILED;
    return latent_heads(json, &plain_rope, config, error);
}

static Status interleave_finish(const json_t *json, Config *config, Error *error) {
    if (!json_flag(json, "rope_interleave", true)) config->rope_pairing = ROPE_HALVES;
    return latent_heads(json, &plain_rope, config, error);
}

static Status deepseek_v3_finish(const json_t *json, Config *config, Error *error) {
    if (family_shared_width(json, "n_shared_experts", 1, config, error) != STATUS_OK)
        return STATUS_FAILED;
    return interleave_finish(json, config, error);
}

static Status deepseek_v32_finish(const json_t *json, Config *config, Error *error) {
    for (uint32_t i = 0; i < config->n_layers; i++) config->indexer[i] = INDEXER_OWN;
    if (family_shared_width(json, "n_shared_experts", 1, config, error) != STATUS_OK)
        return STATUS_FAILED;
    return latent_heads(json, &plain_rope, config, error);
}

static Status glm_moe_dsa_finish(const json_t *json, Config *config, Error *error) {
    if (family_indexers(json, config, error) != STATUS_OK ||
        family_shared_width(json, "n_shared_experts", 1, config, error) != STATUS_OK)
        return STATUS_FAILED;
    return latent_heads(json, &plain_rope, config, error);
}

static void glm_moe_dsa_preset(Config *config) {
    latent_preset(config);
    config->index_interleaved = true;
}

static void axk2_preset(Config *config) {
    latent_preset(config);
    config->stack = STACK_MIXED_NORMS;
    config->latent_q_twice = true;
    config->router_groups_zero = true;
}

static Status axk2_finish(const json_t *json, Config *config, Error *error) {
    if (config->latent_q_dim == 0)
        return error_set(error, "config.json: q_lora_rank is missing or 0");
    if (config->adapter_rank == 0) return error_set(error, "config.json: gated_norm_rank is 0");
    return deepseek_v32_finish(json, config, error);
}

static void hy_v4_preset(Config *config) {
    latent_preset(config);
    config->rope_pairing = ROPE_HALVES;
    config->stack = STACK_HYPER;
    config->index_rotates_end = true;
    config->limit_first = true;
}

/* Without indexer_types the first layer and every fourth from the second on have an indexer. */
static Status hy_v4_finish(const json_t *json, Config *config, Error *error) {
    const json_t *types = json_value(json, "indexer_types");
    if (config->latent_q_dim == 0)
        return error_set(error, "config.json: q_lora_rank is missing or 0");
    config->index_norm_eps = config->norm_eps;
    for (uint32_t i = 0; i < config->n_layers; i++) {
        bool own = i == 0 || i % 4 == 1;
        if (types && family_indexer_type(types, "indexer_types", i, &own, error) != STATUS_OK)
            return STATUS_FAILED;
        config->indexer[i] = own ? INDEXER_OWN : INDEXER_SHARED;
    }
    if (family_shared_width(json, "n_shared_experts", 1, config, error) != STATUS_OK)
        return STATUS_FAILED;
    return latent_heads(json, &plain_rope, config, error);
}

/* Of the second norms, those before experts have gates; a rule cannot tell the layers apart. */
static Status axk2_more(const RuleContext *context, const json_t *json, Error *error) {
    (void)json;
    for (uint32_t l = 0; l < context->source->config.n_layers; l++) {
        char router[96], gate[96];
        snprintf(router, sizeof router, FROM_LAYER "mlp.gate.weight", l);
        snprintf(gate, sizeof gate, FROM_LAYER "post_attention_layernorm.W_down.weight", l);
        if (rules_find(context, router) && !rules_find(context, gate))
            return error_set(error, "%s: tensor '%s' is missing", context->source->path, gate);
    }
    return STATUS_OK;
}

/* The gates of experts are limited, those of dense layers and of the shared expert are not. */
static Status hy_v4_more(const RuleContext *context, const json_t *json, Error *error) {
    const Config *c = &context->source->config;
    double limit = json_number(json, "swiglu_limit", 10);
    if (!(limit > 0 && limit < 1e6)) /* the class's text and its code disagree about 0 */
        return error_set(error, "config.json: swiglu_limit is %g, which must be above 0", limit);
    for (uint32_t l = 0; l < c->n_layers; l++) {
        char name[96];
        snprintf(name, sizeof name, FROM_LAYER "mlp.gate.weight", l);
        if (rules_find(context, name) &&
            gate_limit_add(context->source, l, true, limit, error) != STATUS_OK)
            return STATUS_FAILED;
    }
    return STATUS_OK;
}

/* Mixtures have a norm of their output. The files hold one for dense layers too, which is not
 * applied. */
static Status axk1_more(const RuleContext *context, const json_t *json, Error *error) {
    static const char *const names[] = {FROM_LAYER "post_mlp_layernorm.weight",
                                        FROM_LAYER "mlp.post_mlp_layernorm.weight"};
    const Config *c = &context->source->config;
    (void)json;
    for (uint32_t l = 0; l < c->n_layers; l++) {
        char name[96], to[48];
        RawTensor *norm = NULL;
        for (size_t i = 0; i < 2 && !norm; i++) {
            snprintf(name, sizeof name, names[i], l);
            norm = rules_find(context, name);
        }
        if (norm) norm->used = true;
        snprintf(to, sizeof to, FROM_LAYER "mlp.gate.weight", l);
        if (!rules_find(context, to)) continue;
        float *values = NULL;
        Status status = rules_read(context, name, 1, c->dim, &values, error);
        snprintf(to, sizeof to, "layers.%u.post_ffn_norm", l);
        if (status == STATUS_OK) {
            status = source_add_values(context->source, to, 1, c->dim, values, error);
        } else {
            free(values);
        }
        if (status != STATUS_OK) return status;
    }
    return STATUS_OK;
}

static void longcat_flash_preset(Config *config) {
    latent_preset(config);
    config->router = ROUTER_SOFTMAX_SCORES;
    config->rope_theta = 1e7f;
    config->stack = STACK_SHORTCUT;
}

/* A layer of config.json is two of ours. The experts that give their input are the last ones. The
 * queries' scale is part of the scores'. */
static Status longcat_flash_finish(const json_t *json, Config *config, Error *error) {
    double layers = json_number(json, "num_layers", 28), width = config->dim;
    double q_dim = json_number(json, "qk_head_dim", config->head_dim + config->rotary_dim);
    if (!json_value(json, "num_layers"))
        layers = floor(json_number(json, "num_hidden_layers", 2 * layers) / 2);
    if (!(layers >= 1 && layers <= CONFIG_MAX_LAYERS / 2 && layers == floor(layers)))
        return error_set(error, "config.json: num_layers is %g, which must be from 1 to %d", layers,
                         CONFIG_MAX_LAYERS / 2);
    if (q_dim != config->head_dim + config->rotary_dim)
        return error_set(error, "config.json: qk_head_dim is %g, but its parts have %u and %u",
                         q_dim, config->head_dim, config->rotary_dim);
    if (config->n_experts > CONFIG_MAX_EXPERTS || config->zero_experts > CONFIG_MAX_EXPERTS)
        return error_set(error, "config.json: %u experts and zero_expert_num %u are too many",
                         config->n_experts, config->zero_experts);
    if (config->latent_q_dim == 0)
        return error_set(error, "config.json: q_lora_rank is missing or 0");
    config->n_layers = 2 * (uint32_t)layers;
    config->n_experts += config->zero_experts;
    if (latent_heads(json, &plain_rope, config, error) != STATUS_OK) return STATUS_FAILED;
    config->attention_scale *= (float)sqrt(width / config->latent_q_dim);
    config->latent_scale = (float)sqrt(width / config->latent_dim);
    return STATUS_OK;
}

/* transformers saves matrices of the experts that give their input, too, and never reads them. */
static Status longcat_flash_more(const RuleContext *context, const json_t *json, Error *error) {
    static const char *const parts[] = {"gate_proj", "up_proj", "down_proj"};
    const Config *c = &context->source->config;
    (void)json;
    (void)error;
    for (uint32_t l = 0; l < c->n_layers / 2; l++)
        for (uint32_t e = c->n_experts - c->zero_experts; e < c->n_experts; e++)
            for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
                char name[96];
                snprintf(name, sizeof name, FROM_LAYER "mlp.experts.%u.%s.weight", l, e, parts[i]);
                RawTensor *raw = rules_find(context, name);
                if (raw) raw->used = true;
            }
    return STATUS_OK;
}

static Status mistral4_finish(const json_t *json, Config *config, Error *error) {
    static const RopeKeys rope = MISTRAL4_ROPE;
    if (!json_flag(json, "rope_interleave", true)) config->rope_pairing = ROPE_HALVES;
    if (family_shared_width(json, "n_shared_experts", 1, config, error) != STATUS_OK ||
        family_query_scaling(json, &rope, config, error) != STATUS_OK)
        return STATUS_FAILED;
    return latent_heads(json, &rope, config, error);
}

static Status minicpm3_finish(const json_t *json, Config *config, Error *error) {
    double layers = config->n_layers, width = config->dim;
    const json_t *depth = json_object_get(json, "scale_depth");
    double scale = json_number(json, "scale_depth", depth ? sqrt(layers) : 1.4);
    const json_t *base = json_object_get(json, "dim_model_base");
    double model_base = json_number(json, "dim_model_base", base ? width : 256);
    if (config->value_dim == 0) config->value_dim = config->dim / config->n_heads;
    config->residual_scale = (float)(scale / sqrt(layers));
    config->logit_scale = (float)(model_base / width);
    return latent_heads(json, &plain_rope, config, error);
}

const Family families_latent[] = {
    {"deepseek_v2", deepseek_v2_config, experts_tensors, deepseek_v2_preset, deepseek_v2_finish,
     .biases = all_biases, .bos_id = 1, .eos_id = 2},
    {"deepseek_v3", deepseek_v3_config, experts_tensors, latent_preset, deepseek_v3_finish,
     .biases = attention_biases, .prediction = PREDICTION_NEXTN, .bos_id = 0, .eos_id = 1},
    {"kimi_k2", deepseek_v3_config, experts_tensors, latent_preset, deepseek_v3_finish,
     .biases = attention_biases, .prediction = PREDICTION_NEXTN, .bos_id = 0, .eos_id = 1},
    {"deepseek_v32", deepseek_v32_config, indexed_tensors, latent_preset, deepseek_v32_finish,
     .biases = indexed_biases, .prediction = PREDICTION_NEXTN, .bos_id = 0, .eos_id = 1},
    {"glm_moe_dsa", glm_moe_dsa_config, indexed_tensors, glm_moe_dsa_preset, glm_moe_dsa_finish,
     .biases = indexed_biases, .prediction = PREDICTION_NEXTN, .bos_id = 0, .eos_id = 1},
    {"longcat_flash", longcat_flash_config, longcat_flash_tensors, longcat_flash_preset,
     longcat_flash_finish, longcat_flash_more, .biases = attention_biases,
     .fixed = longcat_flash_fixed, .bos_id = 1, .eos_id = 2},
    {"axk1", axk1_config, experts_tensors, latent_preset, deepseek_v3_finish, axk1_more,
     .biases = attention_biases, .bos_id = 163691, .eos_id = 163691},
    {"axk2", axk2_config, axk2_tensors, axk2_preset, axk2_finish, axk2_more,
     .biases = indexed_biases, .bos_id = 163691, .eos_id = 163691},
    {"hy_v4", hy_v4_config, hy_v4_tensors, hy_v4_preset, hy_v4_finish, hy_v4_more,
     .biases = indexed_biases, .fixed = hy_v4_fixed, .bos_id = 120000, .eos_id = 120025},
    {"glm4_moe_lite", glm4_moe_lite_config, experts_tensors, latent_preset, deepseek_v3_finish,
     .biases = attention_biases, .prediction = PREDICTION_NEXTN, .bos_id = 0, .eos_id = 1},
    {"mistral4", mistral4_config, experts_tensors, mistral4_preset, mistral4_finish,
     .biases = attention_biases, .rope = MISTRAL4_ROPE, .bos_id = 1, .eos_id = 2},
    {"youtu", youtu_config, dense_tensors, latent_preset, interleave_finish,
     .biases = attention_biases, .tied = true, .bos_id = 128000, .eos_id = 128001},
    {"minicpm3", minicpm3_config, dense_tensors, minicpm3_preset, minicpm3_finish,
     .biases = all_biases, .tied = true, .bos_id = 1, .eos_id = 2},
    {0},
};
