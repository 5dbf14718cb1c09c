/* GLM-5 Next: delta attention with decays by key, latent attention to pools of positions. */
#include "families/shared.h"
#include "formats/family/convolutions.h"

/* Zeros that mean something else, or nothing, in the classes. */
static Status refuse_zeros(const json_t *json, Error *error) {
    static const char *const keys[] = {"hc_mult", "hc_sinkhorn_iters", "swiglu_limit"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (family_refuse_zero(json, keys[i], error) != STATUS_OK) return STATUS_FAILED;
    return STATUS_OK;
}

static Status glm5_next_more(const RuleContext *context, const json_t *json, Error *error) {
    (void)json;
    return convolutions_join(context, "model.layers.%u.self_attn.%c_conv1d.weight", error);
}

/* A layer that takes the choice of the layer before it needs one that has chosen: transformers
 * passes a choice on once. */
static Status check_sharing(const Config *c, Error *error) {
    for (uint32_t l = 0; l < c->n_layers; l++)
        if (c->indexer.layer[l] == INDEXER_SHARED &&
            (l == 0 || c->indexer.layer[l - 1] != INDEXER_OWN))
            return error_set(error,
                             "config.json: layer %u shares the choice of a layer that does not "
                             "choose",
                             l);
    return STATUS_OK;
}

/* The least logarithm of a decay; null: none. linear_attn_config takes a null back unless its
 * safe_gate is false. */
static Status glm5_next_bound(const json_t *json, Config *config, Error *error) {
    const json_t *linear = json_object_get(json, "linear_attn_config");
    const json_t *outer = json_object_get(json, "linear_lower_bound");
    const json_t *inner = json_object_get(linear, "gate_lower_bound");
    const json_t *bound = inner ? inner : outer;
    double value = json_is_number(bound) ? json_number_value(bound) : -5;
    if (json_is_null(bound) && !(json_is_object(linear) && json_switch(linear, "safe_gate", true)))
        return STATUS_OK;
    if (!(value < 0 && value > -1e3))
        return error_set(error, "config.json: linear_lower_bound is %g, which must be below 0",
                         value);
    config->state.decay_most = (float)-value;
    return STATUS_OK;
}

/* Sets the sizes and kinds of the layers, the bound of the decays, the indexers of the latent
 * layers and the scale of attention from config.json, and checks which layers share a choice. */
static Status glm5_next_finish(const json_t *json, Config *config, Error *error) {
    if (refuse_zeros(json, error) != STATUS_OK ||
        family_refuse_zero(json, "index_kpool", error) != STATUS_OK ||
        glm5_next_bound(json, config, error) != STATUS_OK ||
        family_indexers(json, config, error) != STATUS_OK)
        return STATUS_FAILED;
    if (config->head_dim > 1 << 12 || config->head_dim == 0 || config->value_dim == 0 ||
        config->latent.q_lora_rank == 0)
        return error_set(error, "config.json: qk_nope_head_dim %u, v_head_dim %u, q_lora_rank %u",
                         config->head_dim, config->value_dim, config->latent.q_lora_rank);
    for (uint32_t l = 0; l < config->n_layers; l++)
        if (config->layer_kind[l] != LAYER_LATENT) config->indexer.layer[l] = INDEXER_NONE;
    config->n_kv_heads = config->n_heads;
    config->latent.norm_eps = config->norm_eps;
    config->attention_scale = (float)(1.0 / sqrt((double)config->head_dim));
    if (family_shared_width(json, "n_shared_experts", 1, config, error) != STATUS_OK)
        return STATUS_FAILED;
    return check_sharing(config, error);
}

/* ---- GGUF ---- */

/* Sets the latent sizes, the sizes and the bound of delta attention, the clip of the experts'
 * gates and the indexers from a GGUF file. */
static Status gguf_glm5_next_finish(const GgufModel *m, Config *c) {
    bool selects_tail = true;
    double bound = 0;
    if (gguf_latent_finish(m, c) != STATUS_OK || gguf_kda_sizes(m, c) != STATUS_OK ||
        gguf_gate_limit(m, &c->experts.swiglu_limit) != STATUS_OK)
        return STATUS_FAILED;
    gguf_model_bool(m, "attention.indexer.kpool_select_tail", &selects_tail);
    if (!selects_tail)
        return error_set(m->error, "%s: attention.indexer.kpool_select_tail is false",
                         m->source->path);
    if (gguf_model_float(m, "kda.gate_lower_bound", &bound)) {
        if (!(bound < 0 && bound > -1e3))
            return error_set(m->error, "%s: kda.gate_lower_bound is %g, which must be below 0",
                             m->source->path, bound);
        c->state.decay_most = (float)-bound;
    }
    c->latent.norm_eps = c->norm_eps;
    gguf_indexers(m, c);
    for (uint32_t l = 0; l < c->n_layers && l < CONFIG_MAX_LAYERS; l++)
        if (c->layer_kind[l] != LAYER_LATENT) c->indexer.layer[l] = INDEXER_NONE;
    return STATUS_OK;
}

const FamilyHook families_glm5_next[] = {
    {"glm5_next", .finish = glm5_next_finish, .more = glm5_next_more,
     .gguf_finish = gguf_glm5_next_finish, .gguf_more = gguf_join_kda},
    {0},
};
