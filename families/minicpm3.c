/* MiniCPM: multipliers; MiniCPM 3: with latent attention. */
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

/* The first MiniCPMs: the multipliers of what branches add and of logits, both from numbers that
 * are 1 where they are absent. */
static Status minicpm_finish(const json_t *json, Config *config, Error *error) {
    double depth = json_number(json, "scale_depth", 1),
           base = json_number(json, "dim_model_base", 1);
    if (!(base > 0)) return error_set(error, "config.json: dim_model_base is %g", base);
    config->residual_scale = (float)(depth / sqrt((double)config->n_layers));
    config->logit_scale = (float)(base / config->dim);
    return STATUS_OK;
}

/* Files of older converters have no key for these; all models were then trained with 1.4 and 256.
 */
static Status gguf_minicpm_finish(const GgufModel *m, Config *c) {
    double divisor = c->dim / 256.0, residual = c->n_layers ? 1.4 / sqrt((double)c->n_layers) : 1.0;
    gguf_model_float(m, "residual_scale", &residual);
    gguf_model_float(m, "logit_scale", &divisor);
    if (!(divisor > 0))
        return error_set(m->error, "%s: logit_scale is %g", m->source->path, divisor);
    c->residual_scale = (float)residual;
    c->logit_scale = (float)(1.0 / divisor);
    return STATUS_OK;
}

const FamilyHook families_minicpm3[] = {
    {"minicpm", .finish = minicpm_finish, .gguf_finish = gguf_minicpm_finish},
    {"minicpm3", .finish = minicpm3_finish, .gguf_finish = gguf_minicpm3_finish},
    {0},
};
