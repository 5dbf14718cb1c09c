/* Hy 4: latent attention with gates and sinks, hyper-connections. */
#include "families/shared.h"

static FamilyFinish hy_v4_finish;
static FamilyMore hy_v4_more;
static GgufFinish gguf_hy_v4_finish;
static GgufMore gguf_hy_v4_more;

const Family families_hy_v4[] = {
    /* Hy 4's experts take SiLU whatever hidden_act says, its other feed-forwards do not. */
    {
        .model_type = "hy_v4",
        .set = SET({"stack", STACK_HYPER}, {"router", ROUTER_SIGMOID_SCORES},
                   {"latent_norm_eps", 1e-6}, {"index_rotates_end", 1}, {"limit_first", 1}),
        .keys =
            KEYS(SIZE_KEYS(120832, 2816, 6912, 34, 32), {"kv_lora_rank", "latent_dim", 512},
                 {"q_lora_rank", "latent_q_dim", 1536}, {"qk_nope_head_dim", "head_dim", 192},
                 {"qk_rope_head_dim", "rotary_dim", 64}, {"v_head_dim", "value_dim", 256},
                 CONTEXT(262144), {"rms_norm_eps", "norm_eps", 1e-5},
                 {"hidden_act", "activation", ACTIVATION_SILU},
                 {"n_routed_experts|num_local_experts", "n_experts", 256},
                 {"num_experts_per_tok", "n_experts_used", 8},
                 {"moe_intermediate_size", "expert_ffn_dim", 768}, {"n_group", "router_groups", 1},
                 {"topk_group", "router_groups_used", 1}, {"norm_topk_prob", "router_normalize", 1},
                 {"routed_scaling_factor", "router_scale", 2.827},
                 {"index_topk", "index_topk", 2048}, {"index_head_dim", "index_dim", 128},
                 {"index_n_heads", "index_heads", 16}, {"hc_mult", "altup_streams", 4},
                 {"hc_magnitude", "hyper_scale", 2}, {"hc_eps", "hyper_eps", 1e-6}),
        .fixed = FIXED({"hidden_act", "\"silu\""}),
        .biases =
            BIASES({" wq_a wkv_a wo ", "attention_bias", false}, {" indexer.k_norm ", NULL, true}),
        .tensors =
            (const TensorRule[]){
                EMBEDDING("model.embed_tokens"),
                LLAMA_NORMS,
                LATENT_ATTENTION,
                DENSE_OR_EXPERTS,
                GATE_UP_EXPERTS(".mlp.experts."),
                DENSE_BIASES,
                CORRECTION(".mlp.gate.e_score_correction_bias"),
                SHARED_EXPERT(".mlp.shared_experts."),
                LLAMA_END,
                INDEXER,
                MATRIX("attention_gate", ".self_attn.linear_gate.weight", "n_heads * value_dim",
                       "dim"),
                VECTOR("sinks", ".self_attn.learnable_sink_param", "n_heads"),
                MATRIX("hyper.attention", ".hc_attn_layer.hc_pre.hc_fn", "hyper_maps",
                       "altup_streams * dim", .optional = true),
                VECTOR("hyper.attention.base", ".hc_attn_layer.hc_pre.hc_base", "hyper_maps",
                       .optional = true),
                VECTOR("hyper.attention.scale", ".hc_attn_layer.hc_pre.hc_scale", "2",
                       .optional = true),
                MATRIX("hyper.ffn", ".hc_mlp_layer.hc_pre.hc_fn", "hyper_maps",
                       "altup_streams * dim", .optional = true),
                VECTOR("hyper.ffn.base", ".hc_mlp_layer.hc_pre.hc_base", "hyper_maps",
                       .optional = true),
                VECTOR("hyper.ffn.scale", ".hc_mlp_layer.hc_pre.hc_scale", "2", .optional = true),
                MATRIX("hyper.end", "model.hc_head.hc_head_fn", "altup_streams",
                       "altup_streams * dim", .optional = true),
                VECTOR("hyper.end.base", "model.hc_head.hc_head_base", "altup_streams",
                       .optional = true),
                VECTOR("hyper.end.scale", "model.hc_head.hc_head_scale", "1", .optional = true),
                MATRIX("hyper.attention", ".hc_pre.hc_attn_layer.hc_fn", "hyper_maps",
                       "altup_streams * dim", .optional = true),
                VECTOR("hyper.attention.base", ".hc_pre.hc_attn_layer.hc_base", "hyper_maps",
                       .optional = true),
                VECTOR("hyper.attention.scale", ".hc_pre.hc_attn_layer.hc_scale", "2",
                       .optional = true),
                MATRIX("hyper.ffn", ".hc_pre.hc_mlp_layer.hc_fn", "hyper_maps",
                       "altup_streams * dim", .optional = true),
                VECTOR("hyper.ffn.base", ".hc_pre.hc_mlp_layer.hc_base", "hyper_maps",
                       .optional = true),
                VECTOR("hyper.ffn.scale", ".hc_pre.hc_mlp_layer.hc_scale", "2", .optional = true),
                MATRIX("hyper.end", "model.hc_pre.hc_head.hc_head_fn", "altup_streams",
                       "altup_streams * dim", .optional = true),
                VECTOR("hyper.end.base", "model.hc_pre.hc_head.hc_head_base", "altup_streams",
                       .optional = true),
                VECTOR("hyper.end.scale", "model.hc_pre.hc_head.hc_head_scale", "1",
                       .optional = true),
                MATRIX("hyper.end", "model.hc_head.hc_pre.hc_head_fn", "altup_streams",
                       "altup_streams * dim", .optional = true),
                VECTOR("hyper.end.base", "model.hc_head.hc_pre.hc_head_base", "altup_streams",
                       .optional = true),
                VECTOR("hyper.end.scale", "model.hc_head.hc_pre.hc_head_scale", "1",
                       .optional = true),
                MATRIX("w_gate", ".mlp.linear_gate.weight", "ffn_dim", "dim", .optional = true),
                MATRIX("shared.w_gate", ".mlp.shared_experts.linear_gate.weight", "shared_ffn_dim",
                       "dim", .optional = true),
                {0},
            },
        .bos_id = 120000,
        .eos_id = 120025,
        .steps = STEPS(STEP("shared_width", "n_shared_experts 1"), STEP("latent_heads")),
        .finish = hy_v4_finish,
        .more = hy_v4_more,
        .gguf =
            (const GgufFamily[]){
                {
                    .architecture = "hy_v4",
                    .required =
                        "attention.q_lora_rank attention.kv_lora_rank attention.key_length_mla "
                        "attention.value_length_mla hyper_connection.count "
                        "hyper_connection.epsilon hyper_connection.magnitude",
                    .set = SET({"stack", STACK_HYPER}, {"router", ROUTER_SIGMOID_SCORES},
                               {"index_rotates_end", 1}, {"limit_first", 1}),
                    .keys = GGUF_KEYS({"hyper_connection.count", "altup_streams"},
                                      {"hyper_connection.epsilon", "hyper_eps"},
                                      {"hyper_connection.magnitude", "hyper_scale"}),
                    .tensors =
                        (const TensorRule[]){
                            EMBEDDING("token_embd"),
                            NORM("attention_norm", ".attn_norm"),
                            NORM("ffn_norm", ".ffn_norm"),
                            GGUF_LATENT_ATTENTION,
                            MATRIX("attention_gate", ".attn_gate.weight", "n_heads * value_dim",
                                   "dim"),
                            VECTOR("sinks", ".attn_sinks.weight", "n_heads"),
                            GGUF_INDEXER,
                            GGUF_ROUTED,
                            GGUF_HYPER("2"),
                            GGUF_HYPER_END,
                            GGUF_END,
                            {0},
                        },
                    .mscales_are_equal = true,
                    .finish = gguf_hy_v4_finish,
                    .more = gguf_hy_v4_more,
                },
                {0},
            },
    },
    {0},
};

/* Without indexer_types the first layer and every fourth from the second on have an indexer. */
static Status hy_v4_finish(const json_t *json, Config *config, Error *error) {
    const json_t *types = json_value(json, "indexer_types");
    if (config->latent.q_lora_rank == 0)
        return error_set(error, "config.json: q_lora_rank is missing or 0");
    config->indexer.norm_eps = config->norm_eps;
    for (uint32_t i = 0; i < config->n_layers; i++) {
        bool own = i == 0 || i % 4 == 1;
        if (types && family_indexer_type(types, "indexer_types", i, &own, error) != STATUS_OK)
            return STATUS_FAILED;
        config->indexer.layer[i] = own ? INDEXER_OWN : INDEXER_SHARED;
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

static Status gguf_hy_v4_finish(const GgufModel *m, Config *c) {
    if (gguf_latent_finish(m, c) != STATUS_OK) return STATUS_FAILED;
    gguf_scale_scores(m, c);
    gguf_indexers(m, c);
    c->indexer.norm_eps = c->norm_eps;
    return STATUS_OK;
}

/* The limits of the experts' gates, which layers without experts do not use. */
static Status gguf_hy_v4_more(GgufModel *m) {
    const GgufValue *limits = gguf_model_find(m, "swiglu_clamp_exp", GGUF_AS_FLOAT);
    for (uint32_t l = 0; limits && l < m->source->config.n_layers; l++) {
        double limit = 0.0;
        if (!gguf_element(limits, limits->is_array ? l : 0, &limit) ||
            !(limit >= 0.0 && limit < 1e6))
            return error_set(m->error, "%s: swiglu_clamp_exp gives layer %u no limit",
                             m->source->path, l);
        if (limit > 0.0 && gguf_model_layer_has(m, l, "ffn_gate_inp.weight") &&
            gate_limit_add(m->source, l, true, limit, m->error) != STATUS_OK)
            return STATUS_FAILED;
    }
    return STATUS_OK;
}
