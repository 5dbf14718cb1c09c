/* Hy 4: latent attention with gates and sinks, hyper-connections. */
#include "families/shared.h"

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

/* The experts' gates are limited; the gates of dense layers and of the shared expert are not. */
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

const FamilyHook families_hy_v4[] = {
    {"hy_v4", .finish = hy_v4_finish, .more = hy_v4_more, .gguf_finish = gguf_hy_v4_finish,
     .gguf_more = gguf_hy_v4_more},
    {0},
};
