/* Mamba, Falcon Mamba, Mamba 2, and Jamba, some of whose layers attend. */
#include "families/shared.h"

/* Reads the channels of Mamba (`inner` where the key is there, else expand * dim) and the rank of
 * its steps ("auto": a sixteenth of dim). */
static Status read_mamba(const json_t *json, const char *inner, const char *expand,
                         const char *rank, Config *config, Error *error) {
    uint32_t times = 1;
    const char *text = json_text(json, rank);
    double least = ceil(config->dim / 16.0);
    if (family_state_read_whole(json, expand, 2, &times, error) != STATUS_OK) return STATUS_FAILED;
    if (family_state_read_whole(json, inner, (double)times * config->dim, &config->state.n_heads,
                                error) != STATUS_OK)
        return STATUS_FAILED;
    config->state.n_key_heads = config->state.value_dim = 1;
    if (text && strcmp(text, "auto") == 0) {
        config->state.dt_rank = (uint32_t)least;
        return STATUS_OK;
    }
    if (text) return error_set(error, "config.json: %s is '%.40s'", rank, text);
    return family_state_read_whole(json, rank, least, &config->state.dt_rank, error);
}

/* Every attn_layer_period-th layer attends, from attn_layer_offset on. */
static Status jamba_finish(const json_t *json, Config *config, Error *error) {
    double period = json_number(json, "attn_layer_period", 8);
    double offset = json_number(json, "attn_layer_offset", 4);
    if (!(period >= 1 && period <= 1e6 && offset >= 0 && offset < period) ||
        period != floor(period) || offset != floor(offset))
        return error_set(error, "config.json: attn_layer_period is %g, attn_layer_offset %g",
                         period, offset);
    for (uint32_t l = 0; l < config->n_layers; l++)
        config->layer_kind[l] =
            l % (uint32_t)period == (uint32_t)offset ? LAYER_ATTENTION : LAYER_MAMBA;
    if (config->experts.count == 1) config->experts.count = 0;
    return read_mamba(json, "", "mamba_expand", "mamba_dt_rank", config, error);
}

static Status mamba_finish(const json_t *json, Config *config, Error *error) {
    return read_mamba(json, "intermediate_size", "expand", "time_step_rank", config, error);
}

static Status falcon_mamba_more(const RuleContext *context, const json_t *json, Error *error) {
    (void)json;
    return family_add_mamba_norms(context, error);
}

static Status falcon_mamba_finish(const json_t *json, Config *config, Error *error) {
    if (family_refuse_zero(json, "mixer_rms_eps", error) != STATUS_OK) return STATUS_FAILED;
    return mamba_finish(json, config, error);
}

static Status mamba2_finish(const json_t *json, Config *config, Error *error) {
    uint32_t expand = 1;
    if (family_state_no_step_limit(json, error) != STATUS_OK ||
        family_state_read_whole(json, "expand", 2, &expand, error) != STATUS_OK)
        return STATUS_FAILED;
    if ((uint64_t)expand * config->dim != (uint64_t)config->state.n_heads * config->state.value_dim)
        return error_set(
            error,
            "config.json: expand %u of hidden_size %u are not num_heads %u of head_dim "
            "%u",
            expand, config->dim, config->state.n_heads, config->state.value_dim);
    return STATUS_OK;
}

/* Reads the sizes of Mamba's states. */
static Status gguf_read_mamba(const GgufModel *m, Config *c) {
    gguf_model_uint(m, "ssm.conv_kernel", &c->state.conv_kernel);
    gguf_model_uint(m, "ssm.state_size", &c->state.key_dim);
    gguf_model_uint(m, "ssm.inner_size", &c->state.n_heads);
    gguf_model_uint(m, "ssm.time_step_rank", &c->state.dt_rank);
    c->state.n_key_heads = c->state.value_dim = 1;
    return STATUS_OK;
}

static Status gguf_jamba_finish(const GgufModel *m, Config *c) {
    if (c->experts.count == 1) c->experts.count = 0;
    if (gguf_kinds_by_heads(m, c, LAYER_ATTENTION, LAYER_MAMBA) != STATUS_OK) return STATUS_FAILED;
    return gguf_read_mamba(m, c);
}

/* Layers without attention and without a feed-forward, whose sizes are then of no use. */
static void gguf_pure_layers(Config *c) {
    c->n_heads = c->n_kv_heads = c->head_dim = c->ffn_dim = 1;
}

static Status gguf_mamba2_finish(const GgufModel *m, Config *c) {
    gguf_pure_layers(c);
    return gguf_read_state(m, c);
}

/* Falcon Mamba has norms without weights, whose epsilon no key gives. */
static Status gguf_mamba_finish(const GgufModel *m, Config *c) {
    bool has_norms = false;
    gguf_model_bool(m, "ssm.dt_b_c_rms", &has_norms);
    if (has_norms) c->state.norm_eps = 1e-6f;
    if (has_norms) snprintf(c->family, sizeof c->family, "falcon_mamba");
    gguf_pure_layers(c);
    return gguf_read_mamba(m, c);
}

static Status gguf_mamba_more(GgufModel *m) {
    const RuleContext context = {.source = m->source, .table = &m->table, .layers = GGUF_LAYERS};
    bool has_norms = false;
    gguf_model_bool(m, "ssm.dt_b_c_rms", &has_norms);
    return has_norms ? family_add_mamba_norms(&context, m->error) : STATUS_OK;
}

const FamilyHook families_mamba[] = {
    {"jamba", .finish = jamba_finish, .gguf_finish = gguf_jamba_finish},
    {"mamba", .finish = mamba_finish, .gguf_finish = gguf_mamba_finish,
     .gguf_more = gguf_mamba_more},
    {"falcon_mamba", .finish = falcon_mamba_finish, .more = falcon_mamba_more},
    {"mamba2", .finish = mamba2_finish, .gguf_finish = gguf_mamba2_finish},
    {0},
};
