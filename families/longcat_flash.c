/* LongCat-Flash: one layer of the files is two of ours, of which the first has the mixture. */
#include "families/shared.h"

static FamilyFinish longcat_flash_finish;
static FamilyMore longcat_flash_more;

const Family families_longcat_flash[] = {
    {
        .model_type = "longcat_flash",
        .set =
            SET({"rope_pairing", ROPE_INTERLEAVED}, {"rope_theta", 1e7}, {"stack", STACK_SHORTCUT},
                {"router", ROUTER_SOFTMAX_SCORES}, {"latent_norm_eps", 1e-6}),
        .keys = KEYS({"vocab_size", "vocab_size", 131072}, {"hidden_size", "dim", 6144},
                     {"ffn_hidden_size|intermediate_size", "ffn_dim", 12288},
                     {"num_attention_heads", "n_heads", 64}, {"kv_lora_rank", "latent_dim", 512},
                     {"q_lora_rank", "latent_q_dim", 1536}, {"qk_nope_head_dim", "head_dim", 128},
                     {"qk_rope_head_dim", "rotary_dim", 64}, {"v_head_dim", "value_dim", 128},
                     CONTEXT(131072), {"rms_norm_eps", "norm_eps", 1e-5},
                     {"hidden_act", "activation", ACTIVATION_SILU},
                     {"n_routed_experts|num_local_experts", "n_experts", 512},
                     {"moe_topk|num_experts_per_tok", "n_experts_used", 12},
                     {"expert_ffn_hidden_size|moe_intermediate_size", "expert_ffn_dim", 2048},
                     {"zero_expert_num", "zero_experts", 256},
                     {"routed_scaling_factor", "router_scale", 6}),
        .fixed = FIXED({"zero_expert_type", "\"identity\""}, {"mla_scale_q_lora", "true"},
                       {"mla_scale_kv_lora", "true"}, {"router_bias", "false"}),
        .biases = BIASES({" wq_a wkv_a wo ", "attention_bias", false}),
        .layers = "model.layers.%q.",
        .tensors =
            (const TensorRule[]){
                EMBEDDING("model.embed_tokens"),
                VECTOR("attention_norm", ".input_layernorm.%p.weight", "dim"),
                VECTOR("ffn_norm", ".post_attention_layernorm.%p.weight", "dim"),
                LINEAR("wq_a", ".self_attn.%p.q_a_proj", "latent_q_dim", "dim"),
                VECTOR("q_norm", ".self_attn.%p.q_a_layernorm.weight", "latent_q_dim"),
                MATRIX("wq_b", ".self_attn.%p.q_b_proj.weight", "n_heads * head_dim",
                       "latent_q_dim"),
                LINEAR("wkv_a", ".self_attn.%p.kv_a_proj_with_mqa", "latent_dim + rotary_dim",
                       "dim"),
                VECTOR("kv_norm", ".self_attn.%p.kv_a_layernorm.weight", "latent_dim"),
                HEADS_OF_LATENT(".self_attn.%p.kv_b_proj.weight"),
                LINEAR("wo", ".self_attn.%p.o_proj", "dim", "n_heads * value_dim"),
                MATRIX("w_gate", ".mlps.%p.gate_proj.weight", "ffn_dim", "dim"),
                MATRIX("w_up", ".mlps.%p.up_proj.weight", "ffn_dim", "dim"),
                MATRIX("w_down", ".mlps.%p.down_proj.weight", "dim", "ffn_dim"),
                MATRIX("router", ".mlp.router.classifier.weight", "n_experts", "dim",
                       .first_of_pair = true),
                VECTOR("router.correction", ".mlp.router.e_score_correction_bias", "n_experts",
                       .optional = true, .first_of_pair = true),
                MATRIX("experts.%u.w_gate", ".mlp.experts.%u.gate_proj.weight", "expert_ffn_dim",
                       "dim", .first_of_pair = true),
                MATRIX("experts.%u.w_up", ".mlp.experts.%u.up_proj.weight", "expert_ffn_dim", "dim",
                       .first_of_pair = true),
                MATRIX("experts.%u.w_down", ".mlp.experts.%u.down_proj.weight", "dim",
                       "expert_ffn_dim", .first_of_pair = true),
                LLAMA_END,
                {0},
            },
        .bos_id = 1,
        .eos_id = 2,
        .finish = longcat_flash_finish,
        .more = longcat_flash_more,
    },
    {0},
};

static const RopeKeys plain_rope;

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
    if (config->experts.count > CONFIG_MAX_EXPERTS || config->experts.identity > CONFIG_MAX_EXPERTS)
        return error_set(error, "config.json: %u experts and zero_expert_num %u are too many",
                         config->experts.count, config->experts.identity);
    if (config->latent.q_lora_rank == 0)
        return error_set(error, "config.json: q_lora_rank is missing or 0");
    config->n_layers = 2 * (uint32_t)layers;
    config->experts.count += config->experts.identity;
    if (family_latent_heads(json, &plain_rope, config, error) != STATUS_OK) return STATUS_FAILED;
    config->attention_scale *= (float)sqrt(width / config->latent.q_lora_rank);
    config->latent.scale = (float)sqrt(width / config->latent.kv_lora_rank);
    return STATUS_OK;
}

/* transformers saves matrices of the experts that give their input, too, and never reads them. */
static Status longcat_flash_more(const RuleContext *context, const json_t *json, Error *error) {
    static const char *const parts[] = {"gate_proj", "up_proj", "down_proj"};
    const Config *c = &context->source->config;
    (void)json;
    (void)error;
    for (uint32_t l = 0; l < c->n_layers / 2; l++)
        for (uint32_t e = c->experts.count - c->experts.identity; e < c->experts.count; e++)
            for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
                char name[96];
                snprintf(name, sizeof name, FROM_LAYER "mlp.experts.%u.%s.weight", l, e, parts[i]);
                RawTensor *raw = rules_find(context, name);
                if (raw) raw->used = true;
            }
    return STATUS_OK;
}
