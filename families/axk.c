/* A.X K1 and K2: DeepSeek V3 with a norm after mixtures; with gated norms and indexers. */
#include "families/shared.h"

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

const FamilyHook families_axk[] = {
    {"axk1", .more = axk1_more},
    {"axk2", .finish = axk2_finish, .more = axk2_more},
    {0},
};
