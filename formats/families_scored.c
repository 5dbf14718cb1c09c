/* Mixtures of experts whose routers rank by scores, as in families_routed.c, with norms around each
 * block and RoPE only in layers with windows. */
#include <stdio.h>
#include <stdlib.h>

#include "formats/expert_rules.h"
#include "formats/json.h"

/* ---- Keys ---- */

/* Every layer is a mixture. */
static const ConfigRule kolibri1_config[] = {
    ROUTED_SIZES(128000, 2560, 50, 48),
    MOE_KEYS(4, 128, 262144, 1e-6),
    EXPERT_KEYS(BOTH_NAMES, 384, 6, "moe_intermediate_size", 512),
    {"moe_intermediate_size", "ffn_dim", 512},
    {"shared_expert_intermediate_size", "shared_ffn_dim", 512},
    {"norm_topk_prob", "router_normalize", 0},
    {0},
};
static const ConfigRule beam_config[] = {
    SIZE_KEYS(151936, 5120, 20480, 52, 48),
    MOE_KEYS(8, 128, 8192, 1e-6),
    EXPERT_KEYS("num_experts", 256, 8, "moe_intermediate_size", 2560),
    {"n_group", "router_groups", 8},
    {"topk_group", "router_groups_used", 4},
    {"norm_topk_prob", "router_normalize", 1},
    {"routed_scaling_factor", "router_scale", 2.5},
    {0},
};
/* transformers reads rope_parameters alone. */
static const FixedKey beam_fixed[] = {{"rope_scaling", "null"}, {0}};
static const BiasRule qkvo_biases[] = {{QKVO, "attention_bias", false}, {0}};

/* ---- Tensors ---- */

#define HEAD_NORMS                                                                                 \
    NORM_OF("q_norm", FROM_LAYER "self_attn.q_norm", N_HEAD),                                      \
        NORM_OF("k_norm", FROM_LAYER "self_attn.k_norm", N_HEAD)

/* The released files' names are others than those that transformers writes; it reads both. */
static const TensorRule kolibri1_tensors[] = {
    LLAMA_EMBEDDING,
    LLAMA_NORMS,
    MAYBE("post_attention_norm", "post_attn_norm", N_ONE, N_DIM),
    MAYBE("post_attention_norm", "post_self_attn_layernorm", N_ONE, N_DIM),
    MAYBE("post_ffn_norm", "post_ffn_norm", N_ONE, N_DIM),
    MAYBE("post_ffn_norm", "post_mlp_layernorm", N_ONE, N_DIM),
    LLAMA_ATTENTION,
    HEAD_NORMS,
    DENSE_OR_EXPERTS,
    CORRECTION("moe.router.expert_bias"),
    CORRECTION("mlp.gate.e_score_correction_bias"),
    SHARED("mlp.shared_experts."),
    LLAMA_END,
    {0},
};
/* The gates of a head's elements have one bias, which beam_more adds. */
static const TensorRule beam_tensors[] = {
    LLAMA_EMBEDDING,
    NORM("attention_norm", FROM_LAYER "input_layernorm"),
    NORM("post_attention_norm", FROM_LAYER "post_attention_layernorm"),
    NORM("ffn_norm", FROM_LAYER "pre_feedforward_layernorm"),
    NORM("post_ffn_norm", FROM_LAYER "post_feedforward_layernorm"),
    LLAMA_ATTENTION,
    HEAD_NORMS,
    {"attention_gate", FROM_LAYER "self_attn.gate_proj.weight", N_OUT, N_DIM, 0, {0}, {0}},
    DENSE_OR_EXPERTS,
    CORRECTION("mlp.gate.e_score_correction_bias"),
    LLAMA_END,
    {0},
};

/* ---- Fields that no key gives, and keys that a rule cannot describe ---- */

static void kolibri1_preset(Config *config) {
    config->router = ROUTER_SIGMOID_SCORES;
    config->router_ranks_logits = true;
    config->qk_norm = QK_NORM_HEAD;
    config->norm_place = NORM_AROUND;
}

/* Without layer_types every 5th layer has full attention. Layers with full attention have RoPE only
 * in models without a window. */
static Status kolibri1_finish(const json_t *json, Config *config, Error *error) {
    bool has_window = !json_is_null(json_object_get(json, "sliding_window"));
    if (family_windows(json, json_value(json, "layer_types"), config, 513, 0, 5, error) !=
        STATUS_OK)
        return STATUS_FAILED;
    for (uint32_t i = 0; i < config->n_layers; i++)
        config->rope_table[i] = config->window[i] == 0 && has_window ? 2 : 0;
    return STATUS_OK;
}

/* The queries of layers without RoPE grow with a power of their position. */
static void beam_preset(Config *config) {
    config->router = ROUTER_SIGMOID_SCORES;
    config->qk_norm = QK_NORM_HEAD;
    config->stack = STACK_MIXED_NORMS;
    config->residual_by_depth = true;
    config->query_power = true;
    config->query_scaling_unrotated = true;
    config->query_scaling = 0.1f;
    config->query_scaling_floor = 2048;
}

/* Without layer_types every 6th layer and the last have full attention. rope_parameters has null
 * for the kinds of layers without RoPE; where it is absent, layers with full attention have none.
 */
static Status beam_finish(const json_t *json, Config *config, Error *error) {
    const json_t *types = json_value(json, "layer_types");
    const json_t *cap = json_object_get(json, "final_logit_softcapping"); /* null: none */
    const json_t *rope = json_value(json, "rope_parameters");
    if (config->n_layers == 0) return error_set(error, "config.json: no layers");
    if (family_windows(json, types, config, 512, 0, 6, error) != STATUS_OK) return STATUS_FAILED;
    if (!types) config->window[config->n_layers - 1] = 0;
    for (uint32_t i = 0; i < config->n_layers; i++) {
        bool slides = config->window[i] > 0;
        const char *kind = slides ? "sliding_attention" : "full_attention";
        bool rotates = rope ? json_value(rope, kind) != NULL : slides;
        config->rope_table[i] = !rotates ? 2 : slides ? 1 : 0;
    }
    config->logit_softcap = cap ? (float)json_number_value(cap) : 30.0f;
    return family_refuse_zero(json, "final_logit_softcapping", error);
}

static Status beam_more(const RuleContext *context, const json_t *json, Error *error) {
    const Config *c = &context->source->config;
    (void)json;
    for (uint32_t l = 0; l < c->n_layers; l++) {
        const HeadShape h = config_heads(c, l);
        size_t n = (size_t)h.n_heads * h.value_dim;
        char name[96];
        float *of_heads;
        snprintf(name, sizeof name, FROM_LAYER "self_attn.gate_bias", l);
        Status status = rules_read(context, name, 1, h.n_heads, &of_heads, error);
        float *bias = malloc(n * sizeof *bias);
        for (size_t i = 0; status == STATUS_OK && bias && i < n; i++)
            bias[i] = of_heads[i / h.value_dim];
        free(of_heads);
        snprintf(name, sizeof name, "layers.%u.attention_gate.bias", l);
        if (status == STATUS_OK)
            status = source_add_values(context->source, name, 1, n, bias, error);
        else
            free(bias);
        if (status != STATUS_OK) return status;
    }
    return STATUS_OK;
}

const Family families_scored[] = {
    {"beam", beam_config, beam_tensors, beam_preset, beam_finish, beam_more, .biases = qkvo_biases,
     .fixed = beam_fixed,
     .rope = {.theta = "rope_parameters.rope_theta",
              .local_theta = 10000,
              .local_theta_key = "rope_parameters.rope_theta"},
     .bos_id = -1, .eos_id = -1},
    {"kolibri1", kolibri1_config, kolibri1_tensors, kolibri1_preset, kolibri1_finish, .bos_id = -1,
     .eos_id = -1},
    {0},
};
