/* Laguna: gated attention, experts by sigmoid scores, heads by layer. */
#include "families/shared.h"

static FamilyFinish laguna_finish;
static FamilyMore laguna_more;
static GgufMore gguf_laguna_more;

const Family families_laguna[] = {
    {
        .model_type = "laguna",
        .set = SET({"rope_theta", 500000}, {"gate_activation", ACTIVATION_SOFTPLUS},
                   {"qk_norm", QK_NORM_HEAD}, {"router", ROUTER_SIGMOID_SCORES},
                   {"router_normalize", 1}),
        .keys =
            KEYS(SIZE_KEYS(100352, 2048, 8192, 40, 48), KV_HEADS(8), HEAD_DIM(128), CONTEXT(131072),
                 {"rms_norm_eps", "norm_eps", 1e-6}, {"hidden_act", "activation", ACTIVATION_SILU},
                 {"num_experts", "n_experts", 256}, {"num_experts_per_tok", "n_experts_used", 8},
                 {"moe_intermediate_size", "expert_ffn_dim", 512},
                 {"shared_expert_intermediate_size", "shared_ffn_dim", 512},
                 {"moe_routed_scaling_factor", "router_scale", 1},
                 {"moe_router_logit_softcapping", "router_softcap", 0}),
        .fixed = FIXED({"moe_apply_router_weight_on_input", "false"}),
        .biases = BIASES({QKVO, "attention_bias", false}),
        .tensors =
            (const TensorRule[]){
                EMBEDDING("model.embed_tokens"),
                LLAMA_NORMS,
                LLAMA_ATTENTION,
                QK_HEAD_NORMS,
                DENSE_OR_EXPERTS,
                CORRECTION(".mlp.experts.e_score_correction_bias"),
                SHARED_EXPERT(".mlp.shared_expert."),
                LLAMA_END,
                {0},
            },
        .rope = {.theta = "rope_parameters.rope_theta",
                 .part = "rope_parameters.partial_rotary_factor",
                 .part_absent = 1,
                 .absent = "{\"partial_rotary_factor\": 0.5}",
                 .local_theta = 10000,
                 .local_theta_key = "rope_parameters.rope_theta"},
        .bos_id = -1,
        .eos_id = -1,
        .finish = laguna_finish,
        .more = laguna_more,
        .gguf =
            (const GgufFamily[]){
                {
                    .architecture = "laguna",
                    .set = SET({"gate_activation", ACTIVATION_SOFTPLUS}, {"qk_norm", QK_NORM_HEAD},
                               {"router", ROUTER_SIGMOID_SCORES}, {"router_normalize", 1}),
                    .keys = GGUF_KEYS({"rope.dimension_count_swa", "rope_local_rotary_dim"}),
                    .tensors =
                        (const TensorRule[]){
                            EMBEDDING("token_embd"),
                            GGUF_ATTENTION,
                            GGUF_QK_HEAD_NORMS,
                            NORM("ffn_norm", ".ffn_norm"),
                            GGUF_ROUTED,
                            GGUF_END,
                            {0},
                        },
                    .full_every = 4,
                    .local_theta = 10000,
                    .full_is_first = true,
                    .more = gguf_laguna_more,
                },
                {0},
            },
    },
    {0},
};

static const TensorRule gates_of_heads[] = {
    MATRIX("attention_gate", ".self_attn.g_proj.weight", "n_heads", "dim"),
    {0},
};

static const TensorRule gates_of_elements[] = {
    MATRIX("attention_gate", ".self_attn.g_proj.weight", "n_heads * value_dim", "dim"),
    {0},
};

static const TensorRule gguf_gates_of_heads[] = {
    MATRIX("attention_gate", ".attn_gate.weight", "n_heads", "dim"),
    {0},
};

static const TensorRule gguf_gates_of_elements[] = {
    MATRIX("attention_gate", ".attn_gate.weight", "n_heads * value_dim", "dim"),
    {0},
};

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

static Status gguf_laguna_more(GgufModel *m) {
    const RuleContext context = {.source = m->source, .table = &m->table, .layers = GGUF_LAYERS};
    const RawTensor *gate = raw_table_find(&m->table, "blk.0.attn_gate.weight");
    bool of_heads = gate && gate->dims[0] == config_heads(&m->source->config, 0).n_heads;
    return rules_apply(&context, of_heads ? gguf_gates_of_heads : gguf_gates_of_elements, m->error);
}
