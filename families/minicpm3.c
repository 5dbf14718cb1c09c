/* MiniCPM: multipliers; MiniCPM 3: with latent attention. */
#include "families/shared.h"

static const RopeKeys plain_rope;

/* Reads a number above 0; what the class takes where the key is absent or null is given. */
static Status read_multiplier(const json_t *json, const char *key, double absent, double null,
                              double *out, Error *error) {
    const json_t *value = json_object_get(json, key);
    *out = json_is_number(value) ? json_number_value(value) : json_is_null(value) ? null : absent;
    if (value && !json_is_null(value) && !json_is_number(value))
        return error_set(error, "config.json: %s is not a number", key);
    return *out > 0 ? STATUS_OK : error_set(error, "config.json: %s is %g", key, *out);
}

static Status minicpm3_finish(const json_t *json, Config *config, Error *error) {
    double layers = config->n_layers, width = config->dim, scale, model_base;
    if (read_multiplier(json, "scale_depth", 1.4, sqrt(layers), &scale, error) != STATUS_OK ||
        read_multiplier(json, "dim_model_base", 256, width, &model_base, error) != STATUS_OK)
        return STATUS_FAILED;
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
    double depth, base;
    if (read_multiplier(json, "scale_depth", 1, 1, &depth, error) != STATUS_OK ||
        read_multiplier(json, "dim_model_base", 1, 1, &base, error) != STATUS_OK)
        return STATUS_FAILED;
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
