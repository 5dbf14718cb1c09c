/* Ling 3 (Bailing hybrid): delta attention beside latent attention. */
#include "families/shared.h"
#include "formats/family/convolutions.h"

static Status bailing_hybrid_more(const RuleContext *context, const json_t *json, Error *error) {
    (void)json;
    return convolutions_join(context, "model.layers.%u.attention.%c_conv1d.weight", error);
}

/* Derives the sizes of the heads (head_dim is the unrotated part plus the rotated one), the bound
 * of the decays and the scale of attention from config.json. */
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
    if (json_switch(json, "kda_safe_gate", true)) {
        if (!(bound < 0 && bound > -1e3))
            return error_set(error, "config.json: kda_lower_bound is %g, which must be below 0",
                             bound);
        config->state.decay_most = (float)-bound;
    }
    if (rope_score_factor(&rope, json, &factor, error) != STATUS_OK) return STATUS_FAILED;
    config->head_dim += config->rotary_dim;
    config->n_kv_heads = config->n_heads;
    if (config->state.n_heads == 0) config->state.n_heads = config->n_heads;
    config->state.n_key_heads = config->state.n_heads;
    config->state.value_dim = config->state.key_dim;
    config->attention_scale = (float)(1.0 / sqrt((double)config->head_dim) * factor);
    return family_shared_width(json, key, 1, config, error);
}

/* ---- GGUF ---- */

static const TensorRule gguf_bailing_latent[] = {
    GGUF_LATENT_ATTENTION,
    MATRIX("attention_gate", ".attn_gate.weight", "n_heads", "dim"),
    {0},
};

static const TensorRule gguf_bailing_delta[] = {
    MATRIX("delta.q", ".attn_q.weight", "state_key_heads * state_key_dim", "dim"),
    MATRIX("delta.k", ".attn_k.weight", "state_key_heads * state_key_dim", "dim"),
    MATRIX("delta.v", ".attn_v.weight", "state_heads * state_value_dim", "dim"),
    MATRIX("delta.a", ".ssm_f_a.weight", "state_key_heads * state_key_dim", "dim"),
    MATRIX("delta.z", ".ssm_g_a.weight", "state_heads * state_value_dim", "dim"),
    MATRIX("delta.b", ".ssm_beta.weight", "state_heads", "dim"),
    MATRIX("delta.out", ".attn_output.weight", "dim", "state_heads * state_value_dim"),
    VECTOR("delta.step_bias", ".ssm_dt.bias", "state_key_heads * state_key_dim"),
    VECTOR("delta.norm", ".ssm_norm.weight", "state_value_dim"),
    {0},
};

/* Says that gate limits are ignored, because transformers' class has none. */
static void gguf_note_limits(const GgufModel *m) {
    static const char *const keys[] = {"swiglu_clamp_exp", "swiglu_clamp_shexp"};
    double limit = 0;
    for (size_t i = 0; i < 2; i++) {
        const GgufValue *found = gguf_model_find(m, keys[i], GGUF_AS_FLOAT);
        for (uint64_t l = 0; limit == 0 && gguf_element(found, l, &limit); l++) continue;
    }
    if (limit != 0)
        source_add_note(m->source, "limits of gates (swiglu_clamp_exp, swiglu_clamp_shexp) are not "
                                   "applied, as in transformers");
}

/* Layers with a state have no key/value heads, and as many heads as those that attend. */
static Status gguf_bailing_finish(const GgufModel *m, Config *c) {
    double bound = -5;
    bool safe = true;
    if (gguf_latent_finish(m, c) != STATUS_OK || gguf_kda_sizes(m, c) != STATUS_OK)
        return STATUS_FAILED;
    gguf_model_float(m, "kda.gate_lower_bound", &bound);
    gguf_model_bool(m, "kda.safe_gate", &safe);
    if (safe && !(bound < 0 && bound > -1e3))
        return error_set(m->error, "%s: kda.gate_lower_bound is %g, which must be below 0",
                         m->source->path, bound);
    if (safe) c->state.decay_most = (float)-bound;
    gguf_scale_scores(m, c);
    gguf_note_limits(m);
    return STATUS_OK;
}

/* The file holds exp(A_log), without the sign that other architectures' files have. */
static Status gguf_add_decay(const RuleContext *context, uint32_t l, Error *error) {
    size_t n = context->source->config.state.n_heads;
    char name[48];
    float *values;
    snprintf(name, sizeof name, GGUF_LAYERS "ssm_a", l);
    if (rules_read(context, name, 1, n, &values, error) != STATUS_OK) return STATUS_FAILED;
    for (size_t i = 0; i < n; i++) values[i] = -values[i];
    snprintf(name, sizeof name, "layers.%u.delta.decay", l);
    return source_add_values(context->source, name, 1, n, values, error);
}

/* The decays stand before the layers' other tensors in a converted file, so these stay here. */
static Status gguf_bailing_more(GgufModel *m) {
    const RuleContext context = {.source = m->source, .table = &m->table, .layers = GGUF_LAYERS};
    const Config *c = &m->source->config;
    for (uint32_t l = 0; l < c->n_layers; l++)
        if (c->layer_kind[l] == LAYER_DELTA && gguf_add_decay(&context, l, m->error) != STATUS_OK)
            return STATUS_FAILED;
    for (uint32_t l = 0; l < c->n_layers; l++) {
        bool attends = c->layer_kind[l] == LAYER_LATENT;
        if (rules_apply_to_layer(&context, attends ? gguf_bailing_latent : gguf_bailing_delta, l,
                                 m->error) != STATUS_OK)
            return STATUS_FAILED;
    }
    return gguf_join_kda(m);
}

const FamilyHook families_bailing_hybrid[] = {
    {"bailing_hybrid", .finish = bailing_hybrid_finish, .more = bailing_hybrid_more},
    {"bailing", .gguf_finish = gguf_bailing_finish, .gguf_more = gguf_bailing_more},
    {0},
};
