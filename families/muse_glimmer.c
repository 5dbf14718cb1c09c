/* The text halves of Muse Glimmer and Muse Spark: gated attention, a norm of the embeddings; Muse
 * Spark weights the residual stream and has mixtures of narrow experts. */
#include <math.h>

#include "base/numbers.h"
#include "families/shared.h"

static FamilyFinish muse_finish, spark_finish;
static FamilyMore muse_more, spark_more;
static GgufMore gguf_muse_more;

const Family families_muse_glimmer[] = {
    {
        .model_type = "muse_glimmer_text",
        .set = SET({"norm_place", NORM_AROUND}, {"qk_norm", QK_NORM_HEAD}),
        .keys = KEYS(SIZE_KEYS(202048, 6656, 19968, 52, 32), KV_HEADS(2), HEAD_DIM(128),
                     CONTEXT(131072), {"rms_norm_eps", "norm_eps", 1e-5},
                     {"post_norm_eps", "post_norm_eps", 1e-8},
                     {"hidden_activation", "activation", ACTIVATION_SILU},
                     {"output_multiplier", "logit_scale", 0.196116135},
                     {"final_logit_softcapping", "logit_softcap", 20}),
        .biases = BIASES({QKVO, "attention_bias", false}),
        .tensors =
            (const TensorRule[]){
                EMBEDDING("model.embed_tokens"),
                VECTOR("attention_norm", ".input_layernorm.weight", "dim",
                       .values = VALUES_PLUS_ONE),
                LLAMA_ATTENTION,
                MATRIX("attention_gate", ".self_attn.gate_proj.weight", "n_heads * value_dim",
                       "dim"),
                VECTOR("post_attention_norm", ".post_attention_layernorm.weight", "dim",
                       .values = VALUES_PLUS_ONE),
                VECTOR("ffn_norm", ".pre_feedforward_layernorm.weight", "dim",
                       .values = VALUES_PLUS_ONE),
                LLAMA_FFN,
                VECTOR("post_ffn_norm", ".post_feedforward_layernorm.weight", "dim",
                       .values = VALUES_PLUS_ONE),
                LLAMA_END,
                {0},
            },
        .bos_id = 200000,
        .eos_id = 200001,
        .finish = muse_finish,
        .more = muse_more,
        .gguf =
            (const GgufFamily[]){
                {
                    .architecture = "muse-glimmer",
                    .required = "attention.sliding_window logit_scale",
                    .pairing = ROPE_INTERLEAVED,
                    .set = SET({"norm_place", NORM_AROUND}, {"post_norm_eps", 1e-8},
                               {"qk_norm", QK_NORM_HEAD}),
                    /* The weights of q_norm are the factor of the queries. No key gives the epsilon
                     * of the norms after the blocks. */
                    .keys = GGUF_KEYS({"logit_scale", "logit_scale"}),
                    .tensors =
                        (const TensorRule[]){
                            EMBEDDING("token_embd"),
                            GGUF_ATTENTION,
                            GGUF_QK_HEAD_NORMS,
                            MATRIX("attention_gate", ".attn_gate.weight", "n_heads * value_dim",
                                   "dim"),
                            NORM("ffn_norm", ".ffn_norm"),
                            GGUF_ROUTED,
                            GGUF_OUTPUT_NORMS,
                            GGUF_END,
                            {0},
                        },
                    .full_every = 4,
                    .full_are_not_rotated = true,
                    .more = gguf_muse_more,
                },
                {0},
            },
    },
    {
        .model_type = "muse_spark_text",
        .set = SET({"norm_place", NORM_AROUND}, {"qk_norm", QK_NORM_HEAD}, {"head_output_norm", 1},
                   {"stack", STACK_RESIDUAL_GATES}, {"router", ROUTER_SIGMOID_SCORES},
                   {"router_normalize", 1}),
        .keys = KEYS(
            SIZE_KEYS(202048, 8192, 16384, 62, 128), KV_HEADS(16), HEAD_DIM(64), CONTEXT(1048576),
            {"rms_norm_eps", "norm_eps", 1e-5}, {"post_norm_eps", "post_norm_eps", 1e-8},
            {"hidden_act", "activation", ACTIVATION_SILU},
            {"output_multiplier", "logit_scale", 0.1767766952966369},
            {"output_multiplier", "router_logit_scale", 0.1767766952966369},
            {"final_logit_softcapping", "logit_softcap", 20},
            {"num_local_experts", "n_experts", 256}, {"num_experts_per_tok", "n_experts_used", 8},
            {"moe_intermediate_size", "expert_ffn_dim", 4096},
            {"moe_hidden_size", "expert_dim", 4096}, {"routed_scaling_factor", "router_scale", 1}),
        .biases = BIASES({QKVO, "attention_bias", false}),
        .tensors =
            (const TensorRule[]){
                EMBEDDING("model.embed_tokens"),
                VECTOR("attention_norm", ".input_layernorm.weight", "dim",
                       .values = VALUES_PLUS_ONE),
                LLAMA_ATTENTION,
                MATRIX("attention_gate", ".self_attn.gate_proj.weight", "n_heads * value_dim",
                       "dim"),
                VECTOR("ffn_norm", ".pre_feedforward_layernorm.weight", "dim",
                       .values = VALUES_PLUS_ONE),
                SOME_FFN(".mlp."),
                MATRIX("router", ".mlp.gate.weight", "n_experts", "dim", .optional = true),
                CORRECTION(".mlp.gate.e_score_correction_bias"),
                MATRIX("experts_in", ".mlp.pre_expert_proj.weight", "expert_dim", "dim",
                       .optional = true),
                VECTOR("experts_norm", ".mlp.pre_expert_norm.weight", "expert_dim",
                       .values = VALUES_PLUS_ONE, .optional = true),
                MATRIX("experts.%u.w_gate experts.%u.w_up", ".mlp.experts.gate_up_proj",
                       "expert_ffn_dim + expert_ffn_dim", "expert_dim", .optional = true),
                MATRIX("experts.%u.w_down", ".mlp.experts.down_proj", "expert_dim",
                       "expert_ffn_dim", .optional = true),
                VECTOR("expert_scale", ".mlp.experts.post_expert_norm.weight", "expert_dim",
                       .values = VALUES_PLUS_ONE, .optional = true),
                MATRIX("experts_out", ".mlp.post_expert_proj.weight", "dim", "expert_dim",
                       .optional = true),
                VECTOR("ffn_scale", ".post_feedforward_layernorm.weight", "dim",
                       .values = VALUES_PLUS_ONE),
                NORM("final_norm", "model.norm"),
                LINEAR("output", "lm_head", "vocab_size", "dim"), /* the class never ties it */
                {0},
            },
        .rope = {.absent = "{\"rope_type\": \"default\", \"rope_theta\": 500000.0}"},
        .bos_id = 200000,
        .eos_id = 200001,
        .finish = spark_finish,
        .more = spark_more,
    },
    {0},
};

/* Sets the windows, the layers without RoPE and the scale of attention, times qk_scale_factor.
 * Full layers without RoPE are every 4th, counted backward from the last, unless lists say which.
 * query_scale: the default of qk_scale_factor in transformers' configuration class. */
static Status finish_muse(const json_t *json, double query_scale, Config *config, Error *error) {
    const json_t *thetas = json_value(json, "layer_rope_theta");
    json_t *types = json_incref((json_t *)json_value(json, "layer_types"));
    if (!types) {
        types = json_array();
        for (uint32_t i = 0; i < config->n_layers; i++)
            json_array_append_new(types,
                                  json_string((config->n_layers - 1 - i) % 4 ? "sliding_attention"
                                                                             : "full_attention"));
    }
    Status status = family_windows(json, types, config, 2048, 0, 0, error);
    json_decref(types);
    if (thetas && json_array_size(thetas) < config->n_layers)
        return error_set(error, "config.json: layer_rope_theta is not a list of %u layers",
                         config->n_layers);
    for (uint32_t i = 0; i < config->n_layers; i++) {
        bool rotated = thetas ? json_number_value(json_array_get(thetas, i)) != 0.0
                              : (config->n_layers - 1 - i) % 4 != 0;
        config->rope_table[i] = rotated ? 0 : 2;
    }
    config->attention_scale *= (float)json_number(json, "qk_scale_factor", query_scale);
    return status == STATUS_OK ? family_refuse_zero(json, "final_logit_softcapping", error)
                               : status;
}

static Status muse_finish(const json_t *json, Config *config, Error *error) {
    return finish_muse(json, 3.87, config, error);
}

static Status spark_finish(const json_t *json, Config *config, Error *error) {
    if (family_refuse_zero(json, "output_multiplier", error) != STATUS_OK) return STATUS_FAILED;
    return finish_muse(json, 5.4730064863875, config, error);
}

/* Adds the norm of the embeddings, which has no weights. */
static Status muse_more(const RuleContext *c, const json_t *json, Error *error) {
    (void)json;
    return family_add_ones(c, "embedding_norm", c->source->config.dim, error);
}

/* Adds the norm of the embeddings, which has no weights. */
static Status gguf_muse_more(GgufModel *m) {
    size_t n = m->source->config.dim;
    float *ones = malloc(n * sizeof *ones);
    for (size_t i = 0; ones && i < n; i++) ones[i] = 1.0f;
    return source_add_values(m->source, "embedding_norm", 1, n, ones, m->error);
}

/* Adds what the gate `from` of a block's addition means: the weights of the norm after the block
 * (`norm`), and those of the stream (`keep`). */
static Status add_residual_gate(const RuleContext *c, double temperature, uint32_t layer,
                                const char *from, const char *norm, const char *keep,
                                Error *error) {
    uint32_t dim = c->source->config.dim;
    char name[MODELFILE_NAME_BYTES];
    float *weights, *kept = malloc(dim * sizeof *kept);
    snprintf(name, sizeof name, FROM_LAYER "%s.gate", layer, from);
    if (rules_read(c, name, 1, dim, &weights, error) != STATUS_OK) {
        free(kept);
        return STATUS_FAILED;
    }
    for (uint32_t i = 0; kept && i < dim; i++) {
        double gate = fmax(-700.0, fmin(700.0, weights[i] / temperature));
        double inverse = numbers_power(exp(1.0), -gate), add = 1.0 / (1.0 + inverse);
        weights[i] = (float)add;
        kept[i] = (float)sqrt(fmax(inverse / (1.0 + inverse) * (1.0 + add), 1e-3));
    }
    snprintf(name, sizeof name, "layers.%u.%s", layer, norm);
    if (source_add_values(c->source, name, 1, dim, weights, error) != STATUS_OK) {
        free(kept);
        return STATUS_FAILED;
    }
    snprintf(name, sizeof name, "layers.%u.%s", layer, keep);
    return source_add_values(c->source, name, 1, dim, kept, error);
}

static Status spark_more(const RuleContext *c, const json_t *json, Error *error) {
    double temperature = json_number(json, "residual_gate_temperature", 0.3);
    Status status = muse_more(c, json, error);
    if (temperature == 0.0) return error_set(error, "config.json: residual_gate_temperature is 0");
    for (uint32_t l = 0; l < c->source->config.n_layers && status == STATUS_OK; l++) {
        status = add_residual_gate(c, temperature, l, "post_attention_residual_gate",
                                   "post_attention_norm", "attention_keep", error);
        if (status == STATUS_OK)
            status = add_residual_gate(c, temperature, l, "post_feedforward_residual_gate",
                                       "post_ffn_norm", "ffn_keep", error);
    }
    return status;
}
