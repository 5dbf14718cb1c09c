/* The text halves of Muse Glimmer and Muse Spark: gated attention, a norm of the embeddings; Muse
 * Spark weights the residual stream and has mixtures of narrow experts. */
#include <math.h>

#include "base/numbers.h"
#include "families/shared.h"

/* Sets the windows, the layers without RoPE and the scale of attention, times qk_scale_factor.
 * Full layers without RoPE are every 4th, counted backward from the last, unless lists say which.
 * query_scale: the default of qk_scale_factor in transformers' configuration class. */
static Status finish_muse(const json_t *json, double query_scale, Config *config, Error *error) {
    const json_t *thetas = json_value(json, "layer_rope_theta");
    json_t *types = json_incref((json_t *)json_value(json, "layer_types"));
    if (!types) {
        types = json_array();
        for (uint32_t i = 0; i < config->n_layers; i++)
            json_array_append_new(types,
                                  json_string((config->n_layers - 1 - i) % 4 ? "sliding_attention"
                                                                             : "full_attention"));
    }
    Status status = family_windows(json, types, config, 2048, 0, 0, error);
    json_decref(types);
    if (thetas && json_array_size(thetas) < config->n_layers)
        return error_set(error, "config.json: layer_rope_theta is not a list of %u layers",
                         config->n_layers);
    for (uint32_t i = 0; i < config->n_layers; i++) {
        bool rotated = thetas ? json_number_value(json_array_get(thetas, i)) != 0.0
                              : (config->n_layers - 1 - i) % 4 != 0;
        config->rope_table[i] = rotated ? 0 : 2;
    }
    config->attention_scale *= (float)json_number(json, "qk_scale_factor", query_scale);
    return status == STATUS_OK ? family_refuse_zero(json, "final_logit_softcapping", error)
                               : status;
}

static Status muse_finish(const json_t *json, Config *config, Error *error) {
    return finish_muse(json, 3.87, config, error);
}

static Status spark_finish(const json_t *json, Config *config, Error *error) {
    if (family_refuse_zero(json, "output_multiplier", error) != STATUS_OK) return STATUS_FAILED;
    return finish_muse(json, 5.4730064863875, config, error);
}

/* Adds the norm of the embeddings, which has no weights. */
static Status muse_more(const RuleContext *c, const json_t *json, Error *error) {
    (void)json;
    return family_add_ones(c, "embedding_norm", c->source->config.dim, error);
}

/* Adds the norm of the embeddings, which has no weights. */
static Status gguf_muse_more(GgufModel *m) {
    size_t n = m->source->config.dim;
    float *ones = malloc(n * sizeof *ones);
    for (size_t i = 0; ones && i < n; i++) ones[i] = 1.0f;
    return source_add_values(m->source, "embedding_norm", 1, n, ones, m->error);
}

/* Adds what the gate `from` of a block's addition means: the weights of the norm after the block
 * (`norm`) and the weights of the stream (`keep`). */
static Status add_residual_gate(const RuleContext *c, double temperature, uint32_t layer,
                                const char *from, const char *norm, const char *keep,
                                Error *error) {
    uint32_t dim = c->source->config.dim;
    char name[MODELFILE_NAME_BYTES];
    float *weights, *kept = malloc(dim * sizeof *kept);
    snprintf(name, sizeof name, FROM_LAYER "%s.gate", layer, from);
    if (rules_read(c, name, 1, dim, &weights, error) != STATUS_OK) {
        free(kept);
        return STATUS_FAILED;
    }
    for (uint32_t i = 0; kept && i < dim; i++) {
        double gate = fmax(-700.0, fmin(700.0, weights[i] / temperature));
        double inverse = numbers_power(exp(1.0), -gate), add = 1.0 / (1.0 + inverse);
        weights[i] = (float)add;
        kept[i] = (float)sqrt(fmax(inverse / (1.0 + inverse) * (1.0 + add), 1e-3));
    }
    snprintf(name, sizeof name, "layers.%u.%s", layer, norm);
    if (source_add_values(c->source, name, 1, dim, weights, error) != STATUS_OK) {
        free(kept);
        return STATUS_FAILED;
    }
    snprintf(name, sizeof name, "layers.%u.%s", layer, keep);
    return source_add_values(c->source, name, 1, dim, kept, error);
}

static Status spark_more(const RuleContext *c, const json_t *json, Error *error) {
    double temperature = json_number(json, "residual_gate_temperature", 0.3);
    Status status = muse_more(c, json, error);
    if (temperature == 0.0) return error_set(error, "config.json: residual_gate_temperature is 0");
    for (uint32_t l = 0; l < c->source->config.n_layers && status == STATUS_OK; l++) {
        status = add_residual_gate(c, temperature, l, "post_attention_residual_gate",
                                   "post_attention_norm", "attention_keep", error);
        if (status == STATUS_OK)
            status = add_residual_gate(c, temperature, l, "post_feedforward_residual_gate",
                                       "post_ffn_norm", "ffn_keep", error);
    }
    return status;
}

const FamilyHook families_muse_glimmer[] = {
    {"muse", .finish = muse_finish, .more = muse_more, .gguf_more = gguf_muse_more},
    {"spark", .finish = spark_finish, .more = spark_more},
    {0},
};
