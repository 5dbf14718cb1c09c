#include "formats/rope.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/json.h"

Rope rope_default(double theta, size_t dim) {
    return (Rope){.scaling = ROPE_DEFAULT,
                  .theta = theta,
                  .dim = dim,
                  .factor = 1.0,
                  .low_freq_factor = 1.0,
                  .high_freq_factor = 4.0,
                  .beta_fast = 32.0,
                  .beta_slow = 1.0,
                  .truncate = true};
}

float *rope_inverse_frequencies(double base, size_t dim) {
    Rope rope = rope_default(base, dim);
    float unused;
    return rope_frequencies(&rope, &unused);
}

static void scale_llama3(const Rope *rope, float *freqs) {
    float pi2 = (float)(2.0 * M_PI), factor = (float)rope->factor;
    float low = (float)rope->low_freq_factor, high = (float)rope->high_freq_factor;
    float low_wavelength = (float)(rope->original_context / rope->low_freq_factor);
    float high_wavelength = (float)(rope->original_context / rope->high_freq_factor);
    for (size_t i = 0; i < rope->dim / 2; i++) {
        /* torch divides a number by a tensor as the number times the reciprocal. */
        float wavelength = 1.0f / freqs[i] * pi2;
        if (wavelength > low_wavelength) {
            freqs[i] /= factor;
        } else if (!(wavelength < high_wavelength)) {
            float smooth = (1.0f / wavelength * (float)rope->original_context - low) / (high - low);
            freqs[i] = (1.0f - smooth) * freqs[i] / factor + smooth * freqs[i];
        }
    }
}

/* The dimension whose frequency turns `rotations` times over the original context. */
static double correction_dim(const Rope *rope, double rotations) {
    return (double)rope->dim * log(rope->original_context / (rotations * 2.0 * M_PI)) /
           (2.0 * log(rope->theta));
}

static void scale_yarn(const Rope *rope, const float *powers, float *freqs) {
    double low = correction_dim(rope, rope->beta_fast),
           high = correction_dim(rope, rope->beta_slow);
    if (rope->truncate) low = floor(low), high = ceil(high);
    low = low < 0.0 ? 0.0 : low;
    high = high > (double)rope->dim - 1 ? (double)rope->dim - 1 : high;
    if (low == high) high += 0.001;
    for (size_t i = 0; i < rope->dim / 2; i++) {
        float ramp = ((float)i - (float)low) / (float)(high - low);
        ramp = ramp < 0.0f ? 0.0f : ramp > 1.0f ? 1.0f : ramp;
        float keep = 1.0f - ramp, interpolated = 1.0f / ((float)rope->factor * powers[i]);
        freqs[i] = interpolated * (1.0f - keep) + freqs[i] * keep;
    }
}

static double yarn_mscale(double scale, double mscale) {
    return scale <= 1.0 ? 1.0 : 0.1 * mscale * log(scale) + 1.0;
}

static double attention_factor_of(const Rope *rope) {
    if (rope->attention_factor != 0.0) return rope->attention_factor;
    if (rope->scaling == ROPE_YARN) {
        if (rope->mscale != 0.0 && rope->mscale_all_dim != 0.0)
            return yarn_mscale(rope->factor, rope->mscale) /
                   yarn_mscale(rope->factor, rope->mscale_all_dim);
        return yarn_mscale(rope->factor, 1.0);
    }
    if (rope->scaling == ROPE_LONGROPE && rope->factor > 1.0)
        return sqrt(1.0 + log(rope->factor) / log(rope->original_context));
    return 1.0;
}

float *rope_frequencies(const Rope *rope, float *attention_factor) {
    size_t n = rope->dim / 2;
    float *freqs = malloc((n + 1) * sizeof *freqs), *powers = malloc((n + 1) * sizeof *powers);
    if (!freqs || !powers) {
        free(freqs);
        free(powers);
        return NULL;
    }
    for (size_t i = 0; i < n; i++) {
        powers[i] = (float)pow((float)rope->theta, (float)(2 * i) / (float)rope->dim);
        freqs[i] = 1.0f / powers[i];
        if (rope->scaling == ROPE_LINEAR) freqs[i] /= (float)rope->factor;
        if (rope->scaling == ROPE_LONGROPE && rope->factors)
            freqs[i] = 1.0f / (rope->factors[i] * powers[i]);
    }
    if (rope->scaling == ROPE_LLAMA3) scale_llama3(rope, freqs);
    if (rope->scaling == ROPE_YARN) scale_yarn(rope, powers, freqs);
    free(powers);
    *attention_factor = (float)attention_factor_of(rope);
    return freqs;
}

void rope_free(Rope *rope) {
    free(rope->factors);
    free(rope->short_factors);
    rope->factors = rope->short_factors = NULL;
}

/* Adds one tensor of frequencies, all of which must be finite. */
static Status add_table(Source *source, const char *name, const Rope *rope, Error *error) {
    float *freqs = rope_frequencies(rope, &source->config.rope_attention_factor);
    for (size_t i = 0; freqs && i < rope->dim / 2; i++) {
        if (isfinite(freqs[i])) continue;
        free(freqs);
        return error_set(error, "%s: the RoPE parameters give frequencies that are not finite",
                         source->path);
    }
    return source_add_values(source, name, 1, rope->dim / 2, freqs, error);
}

Status rope_add(Source *source, const char *name, const Rope *rope, Error *error) {
    source->config.rope_theta = (float)rope->theta;
    if (rope->scaling == ROPE_DYNAMIC) {
        source->config.rope_dynamic_factor = (float)rope->factor;
        source->config.rope_original_context = (uint32_t)rope->original_context;
    }
    if (rope->short_factors) {
        char short_name[MODELFILE_NAME_BYTES];
        Rope in_context = *rope;
        in_context.factors = rope->short_factors;
        source->config.rope_original_context = (uint32_t)rope->original_context;
        snprintf(short_name, sizeof short_name, "%.50s.short", name);
        if (add_table(source, short_name, &in_context, error) != STATUS_OK) return STATUS_FAILED;
    }
    return add_table(source, name, rope, error);
}

Status rope_add_local(Source *source, double theta, Error *error) {
    Config *c = &source->config;
    float first_theta = c->rope_theta, first_factor = c->rope_attention_factor;
    Rope rope = rope_default(theta, c->rotary_dim);
    Status status = rope_add(source, "rope.freqs.1", &rope, error);
    c->rope_theta = first_theta;
    c->rope_attention_factor = first_factor;
    return status;
}

/* ---- config.json ---- */

static Status scaling_from_name(Rope *rope, const char *name, Error *error) {
    static const struct {
        const char *name;
        RopeScaling scaling;
    } names[] = {{"default", ROPE_DEFAULT},
                 {"linear", ROPE_LINEAR},
                 {"llama3", ROPE_LLAMA3},
                 {"yarn", ROPE_YARN},
                 {"longrope", ROPE_LONGROPE},
                 {"su", ROPE_LONGROPE}, /* its name in the first files of Phi 3 */
                 {"dynamic", ROPE_DYNAMIC}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(names[i].name, name) != 0) continue;
        rope->scaling = names[i].scaling;
        return STATUS_OK;
    }
    return error_set(error, "config.json: RoPE scaling '%.40s' is not known to this program", name);
}

/* Reads a list with a positive factor for each of n frequencies. */
static Status read_factors(float **factors, const json_t *parameters, const char *key, size_t n,
                           Error *error) {
    const json_t *list = json_value(parameters, key);
    if (json_array_size(list) != n)
        return error_set(error, "config.json: RoPE scaling: '%s' is not a list of %zu numbers", key,
                         n);
    *factors = malloc((n + 1) * sizeof **factors);
    if (!*factors) return error_set(error, "config.json: no memory");
    for (size_t i = 0; i < n; i++) {
        (*factors)[i] = (float)json_number_value(json_array_get(list, i));
        if (!((*factors)[i] > 0.0f))
            return error_set(error, "config.json: RoPE scaling: '%s' holds %g", key,
                             (double)(*factors)[i]);
    }
    return STATUS_OK;
}

static Status read_longrope(Rope *rope, const json_t *parameters, Error *error) {
    size_t n = rope->dim / 2;
    if (!(rope->original_context < 1 << 28))
        return error_set(error, "config.json: RoPE scaling: original context %g",
                         rope->original_context);
    /* Phi 3.5 MoE gives the attention factor twice, for long and for short texts. */
    double of_long = json_number(parameters, "long_mscale", 0.0);
    if (of_long != json_number(parameters, "short_mscale", 0.0))
        return error_set(error, "config.json: RoPE scaling: long_mscale is not short_mscale");
    if (of_long != 0.0) rope->attention_factor = of_long;
    if (read_factors(&rope->factors, parameters, "long_factor", n, error) != STATUS_OK)
        return STATUS_FAILED;
    return read_factors(&rope->short_factors, parameters, "short_factor", n, error);
}

/* The object that holds the parameters; NULL: config.json has none. */
static const json_t *rope_parameters(const json_t *json, const char *kind) {
    const json_t *parameters = json_value(json, "rope_parameters");
    if (kind && json_is_object(json_value(parameters, kind))) return json_value(parameters, kind);
    if (!json_is_object(parameters)) parameters = json_value(json, "rope_scaling");
    return json_is_object(parameters) ? parameters : NULL;
}

Status rope_from_json(Rope *rope, const json_t *json, const char *kind, const Config *config,
                      Error *error) {
    *rope = rope_default(10000.0, config->rotary_dim);
    const json_t *parameters = rope_parameters(json, kind);
    rope->theta = json_number(parameters, "rope_theta",
                              json_number(json, "rope_theta", (double)config->rope_theta));
    if (!(rope->theta > 1.0) || !isfinite((float)rope->theta))
        return error_set(error, "config.json: rope_theta is %g", rope->theta);
    const char *name = json_text(parameters, "rope_type");
    if (!name) name = json_text(parameters, "type");
    if (!parameters || !name) return STATUS_OK;
    if (scaling_from_name(rope, name, error) != STATUS_OK) return STATUS_FAILED;
    double context = json_number(json, "max_position_embeddings", config->context);
    rope->original_context =
        json_number(json, "original_max_position_embeddings",
                    json_number(parameters, "original_max_position_embeddings", context));
    rope->factor = json_number(parameters, "factor", context / rope->original_context);
    rope->low_freq_factor = json_number(parameters, "low_freq_factor", 1.0);
    rope->high_freq_factor = json_number(parameters, "high_freq_factor", 4.0);
    rope->beta_fast = json_number(parameters, "beta_fast", 32.0);
    rope->beta_slow = json_number(parameters, "beta_slow", 1.0);
    rope->mscale = json_number(parameters, "mscale", 0.0);
    rope->mscale_all_dim = json_number(parameters, "mscale_all_dim", 0.0);
    rope->attention_factor = json_number(parameters, "attention_factor", 0.0);
    const json_t *truncate = json_value(parameters, "truncate");
    rope->truncate = !truncate || !json_is_false(truncate);
    if (!(rope->factor > 0.0) || !(rope->original_context > 0.0))
        return error_set(error,
                         "config.json: the RoPE scaling's factor is %g, its original "
                         "context %g",
                         rope->factor, rope->original_context);
    if (rope->scaling == ROPE_DYNAMIC) rope->original_context = config->context;
    if (rope->scaling == ROPE_LONGROPE) return read_longrope(rope, parameters, error);
    return STATUS_OK;
}
