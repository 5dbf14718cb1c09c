/* Ling 3 (Bailing hybrid): delta attention beside latent attention. */
#include "families/shared.h"
#include "formats/family/convolutions.h"

static const TensorRule bailing_hybrid_latent[] = {
    MATRIX("wq", ".attention.q_proj.weight", "n_heads * head_dim", "dim", .optional = true),
    LINEAR("wq_a", ".attention.q_a_proj", "latent_q_dim", "dim", .optional = true),
    VECTOR("q_norm", ".attention.q_a_layernorm.weight", "latent_q_dim", .optional = true),
    MATRIX("wq_b", ".attention.q_b_proj.weight", "n_heads * head_dim", "latent_q_dim",
           .optional = true),
    LINEAR("wkv_a", ".attention.kv_a_proj_with_mqa", "latent_dim + rotary_dim", "dim"),
    VECTOR("kv_norm", ".attention.kv_a_layernorm.weight", "latent_dim", .optional = true),
    HEADS_OF_LATENT(".attention.kv_b_proj.weight"),
    MATRIX("attention_gate", ".attention.g_proj.weight", "n_heads", "dim", .optional = true),
    LINEAR("wo", ".attention.dense", "dim", "n_heads * value_dim"),
    {0},
};

static const TensorRule bailing_hybrid_delta[] = {
    MATRIX("delta.q", ".attention.q_proj.weight", "state_key_heads * state_key_dim", "dim",
           .optional = true),
    MATRIX("delta.k", ".attention.k_proj.weight", "state_key_heads * state_key_dim", "dim",
           .optional = true),
    MATRIX("delta.v", ".attention.v_proj.weight", "state_heads * state_value_dim", "dim",
           .optional = true),
    MATRIX("delta.a", ".attention.f_proj.weight", "state_key_heads * state_key_dim", "dim",
           .optional = true),
    MATRIX("delta.z", ".attention.g_proj.weight", "state_heads * state_value_dim", "dim",
           .optional = true),
    MATRIX("delta.b", ".attention.b_proj.weight", "state_heads", "dim", .optional = true),
    MATRIX("delta.out", ".attention.dense.weight", "dim", "state_heads * state_value_dim",
           .optional = true),
    VECTOR("delta.decay", ".attention.A_log", "state_heads", .values = VALUES_MINUS_EXP,
           .optional = true),
    VECTOR("delta.step_bias", ".attention.dt_bias", "state_key_heads * state_key_dim",
           .optional = true),
    VECTOR("delta.norm", ".attention.o_norm.weight", "state_value_dim", .optional = true),
    {0},
};

/* A gate is optional for layers of other families. */
static Status bailing_hybrid_more(const RuleContext *context, const json_t *json, Error *error) {
    const Config *c = &context->source->config;
    (void)json;
    for (uint32_t l = 0; l < c->n_layers; l++) {
        bool attends = c->layer_kind[l] == LAYER_LATENT;
        char name[MODELFILE_NAME_BYTES];
        snprintf(name, sizeof name, FROM_LAYER "attention.g_proj.weight", l);
        if (attends && !rules_find(context, name))
            return error_set(error, "%s: has no tensor '%s'", context->source->path, name);
        if (rules_apply_to_layer(context, attends ? bailing_hybrid_latent : bailing_hybrid_delta, l,
                                 error) != STATUS_OK)
            return STATUS_FAILED;
    }
    return convolutions_join(context, "model.layers.%u.attention.%c_conv1d.weight", error);
}

/* Without layer_types every layer_group_size-th layer attends. */
static Status bailing_hybrid_kinds(const json_t *json, Config *config, Error *error) {
    static const KindName names[] = {
        {"linear_attention", LAYER_DELTA}, {"full_attention", LAYER_LATENT}, {0}};
    const json_t *types = json_value(json, "layer_types");
    uint32_t every = 0;
    if (types) return family_state_read_kinds(types, names, config, error);
    if (family_state_read_whole(json, "layer_group_size", 6, &every, error) != STATUS_OK)
        return STATUS_FAILED;
    for (uint32_t l = 0; l < config->n_layers; l++)
        config->layer_kind[l] = (l + 1) % every == 0 ? LAYER_LATENT : LAYER_DELTA;
    return STATUS_OK;
}

/* Derives the sizes of the heads (head_dim is the unrotated part plus the rotated one), the bound
 * of the decays, the scale of attention and the kinds of the layers from config.json. */
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
    if (family_shared_width(json, key, 1, config, error) != STATUS_OK) return STATUS_FAILED;
    return bailing_hybrid_kinds(json, config, error);
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

/* Says that limits of gates do not count: transformers' class knows none. */
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

static Status gguf_bailing_more(GgufModel *m) {
    const RuleContext context = {.source = m->source, .table = &m->table, .layers = GGUF_LAYERS};
    const Config *c = &m->source->config;
    for (uint32_t l = 0; l < c->n_layers; l++)
        if (c->layer_kind[l] == LAYER_DELTA && gguf_add_decay(&context, l, m->error) != STATUS_OK)
            return STATUS_FAILED;
    return gguf_add_kda(&context, gguf_bailing_latent, gguf_bailing_delta, m->error);
}

const FamilyHook families_bailing_hybrid[] = {
    {"bailing_hybrid", .finish = bailing_hybrid_finish, .more = bailing_hybrid_more},
    {"bailing", .gguf_finish = gguf_bailing_finish, .gguf_more = gguf_bailing_more},
    {0},
};
