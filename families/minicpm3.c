/* MiniCPM 3: latent attention and multipliers. */
#include "families/shared.h"

static const RopeKeys plain_rope;

static Status minicpm3_finish(const json_t *json, Config *config, Error *error) {
    double layers = config->n_layers, width = config->dim;
    const json_t *depth = json_object_get(json, "scale_depth");
    double scale = json_number(json, "scale_depth", depth ? sqrt(layers) : 1.4);
    const json_t *base = json_object_get(json, "dim_model_base");
    double model_base = json_number(json, "dim_model_base", base ? width : 256);
    if (config->value_dim == 0) config->value_dim = config->dim / config->n_heads;
    config->residual_scale = (float)(scale / sqrt(layers));
    config->logit_scale = (float)(model_base / width);
    return family_latent_heads(json, &plain_rope, config, error);
}

/* No key gives MiniCPM 3's multipliers; all of its models have these. */
static Status gguf_minicpm3_finish(const GgufModel *m, Config *c) {
    c->residual_scale = c->n_layers ? (float)(1.4 / sqrt((double)c->n_layers)) : 1.0f;
    c->logit_scale = c->dim ? (float)(256.0 / c->dim) : 1.0f;
    return gguf_latent_finish(m, c);
}

const FamilyHook families_minicpm3[] = {
    {"minicpm3", .finish = minicpm3_finish, .gguf_finish = gguf_minicpm3_finish},
    {0},
};
