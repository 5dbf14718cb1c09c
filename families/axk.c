/* A.X K1 and K2: DeepSeek V3 with a norm after mixtures; with gated norms and indexers. */
#include "families/shared.h"

static FamilyMore axk1_more;
static FamilyFinish axk2_finish;
static FamilyMore axk2_more;

const Family families_axk[] = {
    {
        .model_type = "axk1",
        .set = SET({"rope_pairing", ROPE_INTERLEAVED}, {"router", ROUTER_SIGMOID_SCORES},
                   {"latent_norm_eps", 1e-6}),
        .keys =
            KEYS(SIZE_KEYS(163840, 7168, 18432, 61, 64), {"kv_lora_rank", "latent_dim", 512},
                 {"q_lora_rank", "latent_q_dim", 1536}, {"qk_nope_head_dim", "head_dim", 128},
                 {"qk_rope_head_dim", "rotary_dim", 64}, {"v_head_dim", "value_dim", 128},
                 CONTEXT(32768), {"rms_norm_eps", "norm_eps", 1e-6},
                 {"hidden_act", "activation", ACTIVATION_SILU},
                 {"n_routed_experts|num_local_experts", "n_experts", 192},
                 {"num_experts_per_tok", "n_experts_used", 8},
                 {"moe_intermediate_size", "expert_ffn_dim", 2048}, {"n_group", "router_groups", 8},
                 {"topk_group", "router_groups_used", 4}, {"norm_topk_prob", "router_normalize", 1},
                 {"routed_scaling_factor", "router_scale", 2.5}),
        .biases = BIASES({" wq_a wkv_a wo ", "attention_bias", false}),
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
                {0},
            },
        .bos_id = 163691,
        .eos_id = 163691,
        .steps =
            STEPS(STEP("shared_width", "n_shared_experts 1"),
                  STEP("set", "rope_pairing halves", .unless = "rope_interleave", .absent = true),
                  STEP("latent_heads")),
        .more = axk1_more,
    },
    {
        .model_type = "axk2",
        .set = SET({"rope_pairing", ROPE_INTERLEAVED}, {"stack", STACK_MIXED_NORMS},
                   {"router", ROUTER_SIGMOID_SCORES}, {"latent_norm_eps", 1e-6},
                   {"latent_q_twice", 1}, {"router_groups_zero", 1}),
        .keys =
            KEYS(SIZE_KEYS(163840, 2048, 5120, 48, 32), {"kv_lora_rank", "latent_dim", 128},
                 {"q_lora_rank", "latent_q_dim", 384}, {"qk_nope_head_dim", "head_dim", 64},
                 {"qk_rope_head_dim", "rotary_dim", 32}, {"v_head_dim", "value_dim", 64},
                 CONTEXT(131072), {"rms_norm_eps", "norm_eps", 1e-6},
                 {"hidden_act", "activation", ACTIVATION_SILU},
                 {"n_routed_experts|num_local_experts", "n_experts", 128},
                 {"num_experts_per_tok", "n_experts_used", 8},
                 {"moe_intermediate_size", "expert_ffn_dim", 512}, {"n_group", "router_groups", 0},
                 {"topk_group", "router_groups_used", 0}, {"norm_topk_prob", "router_normalize", 1},
                 {"routed_scaling_factor", "router_scale", 2.5},
                 {"gated_norm_rank", "adapter_rank", 16}, {"index_topk", "index_topk", 2048},
                 {"index_head_dim", "index_dim", 128}, {"index_n_heads", "index_heads", 16}),
        .biases =
            BIASES({" wq_a wkv_a wo ", "attention_bias", false}, {" indexer.k_norm ", NULL, true}),
        .tensors =
            (const TensorRule[]){
                EMBEDDING("model.embed_tokens"),
                VECTOR("attention_norm", ".input_layernorm.norm.weight", "dim"),
                VECTOR("ffn_norm", ".post_attention_layernorm.weight", "dim", .optional = true),
                VECTOR("ffn_norm", ".post_attention_layernorm.norm.weight", "dim",
                       .optional = true),
                LINEAR("attention_norm.gate_down", ".input_layernorm.W_down", "adapter_rank",
                       "dim"),
                LINEAR("attention_norm.gate_up", ".input_layernorm.W_up", "dim", "adapter_rank"),
                MATRIX("ffn_norm.gate_down", ".post_attention_layernorm.W_down.weight",
                       "adapter_rank", "dim", .optional = true),
                MATRIX("ffn_norm.gate_up", ".post_attention_layernorm.W_up.weight", "dim",
                       "adapter_rank", .optional = true),
                LINEAR("wq_a", ".self_attn.q_a_proj", "latent_q_dim", "dim"),
                VECTOR("q_norm", ".self_attn.q_a_layernorm.weight", "latent_q_dim",
                       .optional = true),
                MATRIX("wq_b attention_gate", ".self_attn.q_b_proj.weight",
                       "n_heads * head_dim + n_heads * value_dim", "2 * latent_q_dim",
                       .by = "n_heads"),
                LATENTS,
                DENSE_OR_EXPERTS,
                CORRECTION(".mlp.gate.e_score_correction_bias"),
                SHARED_EXPERT(".mlp.shared_experts."),
                LLAMA_END,
                INDEXER,
                {0},
            },
        .bos_id = 163691,
        .eos_id = 163691,
        .steps =
            STEPS(STEP("shared_width", "n_shared_experts 1"), STEP("latent_heads", "indexers all")),
        .finish = axk2_finish,
        .more = axk2_more,
    },
    {0},
};

static Status axk2_finish(const json_t *json, Config *config, Error *error) {
    if (config->latent.q_lora_rank == 0)
        return error_set(error, "config.json: q_lora_rank is missing or 0");
    if (config->adapter_rank == 0) return error_set(error, "config.json: gated_norm_rank is 0");
    (void)json;
    return STATUS_OK;
}

/* Requires the gates of the post-attention norm in layers with experts. A rule makes them optional
 * in all layers, since it cannot tell the layers apart. */
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
