/* MiniMax-01: lightning attention, residuals of norms. */
#include "families/shared.h"

static const TensorRule gguf_minimax_lightning[] = {
    MATRIX("lightning.q lightning.k lightning.v", ".attn_qkv.weight",
           "state_heads * state_value_dim + state_heads * state_value_dim + state_heads * "
           "state_value_dim",
           "dim", .by = "state_key_heads", .optional = true),
    MATRIX("lightning.gate", ".attn_gate.weight", "state_heads * state_value_dim", "dim",
           .optional = true),
    MATRIX("lightning.out", ".attn_output.weight", "dim", "state_heads * state_value_dim",
           .optional = true),
    VECTOR("lightning.norm", ".attn_norm_2.weight", "state_heads * state_value_dim",
           .optional = true),
    {0},
};

static const TensorRule gguf_minimax_full[] = {
    GGUF_SOME_ATTENTION,
    {0},
};

/* Adds the slopes of layers whose file has none. */
static Status minimax_more(const RuleContext *context, const json_t *json, Error *error) {
    const Config *c = &context->source->config;
    (void)json;
    for (uint32_t l = 0; l < c->n_layers; l++) {
        char name[MODELFILE_NAME_BYTES];
        snprintf(name, sizeof name, "model.layers.%u.self_attn.slope_rate", l);
        if (c->layer_kind[l] == LAYER_LIGHTNING && !rules_find(context, name) &&
            family_add_slopes(context, l, error) != STATUS_OK)
            return STATUS_FAILED;
    }
    return STATUS_OK;
}

/* Reads the factors of the residual, alpha, and of what is added to it, beta, which must be the
 * same for attention, lightning attention and feed-forwards. A norm follows every sum, so that only
 * their ratio matters if epsilon and embedding are scaled as well. */
static Status minimax_factors(const json_t *json, Config *config, Error *error) {
    static const char *const keys[2][3] = {
        {"full_attn_alpha_factor", "linear_attn_alpha_factor", "mlp_alpha_factor"},
        {"full_attn_beta_factor", "linear_attn_beta_factor", "mlp_beta_factor"}};
    double factors[2];
    for (int i = 0; i < 2; i++) {
        factors[i] = json_number(json, keys[i][0], 1);
        for (int k = 0; k < 3; k++) {
            double other = json_number(json, keys[i][k], 1);
            if (!(other > 1e-3 && other < 1e3) || other != factors[i])
                return error_set(error,
                                 "config.json: %s is %g and %s %g: this program needs equal "
                                 "factors above 0",
                                 keys[i][0], factors[i], keys[i][k], other);
        }
    }
    config->residual_scale = (float)(factors[1] / factors[0]);
    config->embedding_scale = (float)(1.0 / factors[0]);
    config->norm_eps = (float)((double)config->norm_eps / (factors[0] * factors[0]));
    return STATUS_OK;
}

/* Layers that attend may have a window. */
static Status minimax_finish(const json_t *json, Config *config, Error *error) {
    uint32_t window = 0;
    if (minimax_factors(json, config, error) != STATUS_OK ||
        (json_value(json, "sliding_window") &&
         family_state_read_whole(json, "sliding_window", 0, &window, error) != STATUS_OK))
        return STATUS_FAILED;
    config->state.n_heads = config->state.n_key_heads = config->n_heads;
    config->state.key_dim = config->state.value_dim = config->head_dim;
    for (uint32_t l = 0; l < config->n_layers; l++)
        config->window[l] = config->layer_kind[l] == LAYER_ATTENTION ? window : 0;
    return STATUS_OK;
}

/* residual_scale multiplies the stream, which is normalized before each sum: what is added is
 * divided by it instead, as are the embedding and, twice, the epsilon. */
static Status gguf_minimax_finish(const GgufModel *m, Config *c) {
    double alpha = 1.0;
    gguf_model_float(m, "residual_scale", &alpha);
    if (!(alpha > 1e-3 && alpha < 1e3))
        return error_set(m->error, "%s: residual_scale is %g", m->source->path, alpha);
    c->residual_scale = c->embedding_scale = (float)(1.0 / alpha);
    c->norm_eps = (float)((double)c->norm_eps / (alpha * alpha));
    c->state.n_heads = c->state.n_key_heads = c->n_heads;
    c->state.key_dim = c->state.value_dim = c->head_dim;
    for (uint32_t l = 0; l < c->n_layers && l < CONFIG_MAX_LAYERS; l++)
        c->layer_kind[l] =
            gguf_model_layer_has(m, l, "attn_qkv.weight") ? LAYER_LIGHTNING : LAYER_ATTENTION;
    return STATUS_OK;
}

static Status gguf_minimax_more(GgufModel *m) {
    const RuleContext context = {.source = m->source, .table = &m->table, .layers = GGUF_LAYERS};
    const Config *c = &m->source->config;
    for (uint32_t l = 0; l < c->n_layers; l++) {
        bool has_state = c->layer_kind[l] == LAYER_LIGHTNING;
        if (rules_apply_to_layer(&context, has_state ? gguf_minimax_lightning : gguf_minimax_full,
                                 l, m->error) != STATUS_OK ||
            (has_state && family_add_slopes(&context, l, m->error) != STATUS_OK))
            return STATUS_FAILED;
    }
    return STATUS_OK;
}

const FamilyHook families_minimax[] = {
    {"minimax", .finish = minimax_finish, .more = minimax_more, .gguf_finish = gguf_minimax_finish,
     .gguf_more = gguf_minimax_more},
    {0},
};
