/* The text half of Muse Glimmer: gated attention, a norm of the embeddings. */
#include "families/shared.h"

static FamilyFinish muse_finish;
static FamilyMore muse_more;
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
    {0},
};

/* Full layers without RoPE are every 4th, counted backward from the last, unless lists say which.
 */
static Status muse_finish(const json_t *json, Config *config, Error *error) {
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
    config->attention_scale *= (float)json_number(json, "qk_scale_factor", 3.87);
    return status == STATUS_OK ? family_refuse_zero(json, "final_logit_softcapping", error)
                               : status;
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
