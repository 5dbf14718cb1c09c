#include "formats/family/rope.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json/json_object.h"
#include "json/json_reader.h"

Rope rope_default(double theta, size_t dim) {
    return (Rope){.scaling = ROPE_DEFAULT,
                  .theta = theta,
                  .dim = dim,
                  .factor = 1.0,
                  .low_freq_factor = 1.0,
                  .high_freq_factor = 4.0,
                  .beta_fast = 32.0,
                  .beta_slow = 1.0,
                  .truncate = true,
                  .part = 1.0,
                  .attention_factor = NAN};
}

float *rope_inverse_frequencies(double base, size_t dim) {
    Rope rope = rope_default(base, dim);
    float unused;
    return rope_frequencies(&rope, &unused);
}

/* A part of a head that is odd has one frequency more than half of it. */
static size_t n_frequencies(const Rope *rope) {
    return (rope->dim + 1) / 2;
}

static void scale_llama3(const Rope *rope, float *freqs) {
    float pi2 = (float)(2.0 * M_PI), factor = (float)rope->factor;
    float low = (float)rope->low_freq_factor, high = (float)rope->high_freq_factor;
    float low_wavelength = (float)(rope->original_context / rope->low_freq_factor);
    float high_wavelength = (float)(rope->original_context / rope->high_freq_factor);
    for (size_t i = 0; i < n_frequencies(rope); i++) {
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
    for (size_t i = 0; i < n_frequencies(rope); i++) {
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
    if (!isnan(rope->attention_factor)) return rope->attention_factor;
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
    size_t n = n_frequencies(rope);
    float *freqs = malloc((n + 1) * sizeof *freqs), *powers = malloc((n + 1) * sizeof *powers);
    if (!freqs || !powers) {
        free(freqs);
        free(powers);
        return NULL;
    }
    size_t n_rotated = (size_t)floor(rope->part * (double)rope->dim / 2.0);
    for (size_t i = 0; i < n; i++) {
        powers[i] = (float)pow((float)rope->theta, (float)(2 * i) / (float)rope->dim);
        freqs[i] = 1.0f / powers[i];
        if (rope->scaling == ROPE_PROPORTIONAL && i >= n_rotated) freqs[i] = 0.0f;
        if (rope->scaling == ROPE_LINEAR || rope->scaling == ROPE_PROPORTIONAL)
            freqs[i] /= (float)rope->factor;
        if (rope->scaling == ROPE_LONGROPE && rope->factors)
            freqs[i] = 1.0f / (rope->factors[i] * powers[i]);
    }
    if (rope->scaling == ROPE_LLAMA3) scale_llama3(rope, freqs);
    if (rope->scaling == ROPE_YARN) scale_yarn(rope, powers, freqs);
    for (size_t i = 0; rope->reversed && i < n; i++) freqs[i] = -freqs[i];
    for (size_t i = 0; rope->exponents && i < n; i++) freqs[i] *= (float)exp(rope->exponents[i]);
    free(powers);
    *attention_factor = (float)attention_factor_of(rope);
    return freqs;
}

void rope_free(Rope *rope) {
    free(rope->factors);
    free(rope->short_factors);
    free(rope->exponents);
    rope->factors = rope->short_factors = rope->exponents = NULL;
}

/* Adds one tensor of frequencies, all of which must be finite. */
static Status add_table(Source *source, const char *name, const Rope *rope, Error *error) {
    float *freqs = rope_frequencies(rope, &source->config.rope_attention_factor);
    for (size_t i = 0; freqs && i < n_frequencies(rope); i++) {
        if (isfinite(freqs[i])) continue;
        free(freqs);
        return error_set(error, "%s: the RoPE parameters give frequencies that are not finite",
                         source->path);
    }
    return source_add_values(source, name, 1, n_frequencies(rope), freqs, error);
}

Status rope_add(Source *source, const char *name, const Rope *rope, Error *error) {
    source->config.rope_theta = (float)rope->theta;
    if (rope->scaling == ROPE_DYNAMIC) {
        /* The longer base has the odd number in its exponent, and Config the even one above it. */
        if (rope->dim % 2 != 0)
            return error_set(error,
                             "%s: RoPE scaling 'dynamic' of an odd part of a head (%zu elements) "
                             "cannot be computed by this program",
                             source->path, rope->dim);
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

Status rope_add_local(Source *source, const Rope *rope, Error *error) {
    Config *c = &source->config;
    if (rope->scaling == ROPE_DYNAMIC || rope->scaling == ROPE_LONGROPE)
        return error_set(error,
                         "%s: RoPE scaling '%s' of the layers with windows cannot be computed by "
                         "this program",
                         source->path, rope->scaling == ROPE_DYNAMIC ? "dynamic" : "longrope");
    float first_theta = c->rope_theta, first_factor = c->rope_attention_factor;
    size_t rotated = 2 * n_frequencies(rope);
    if (rotated != c->rotary_dim) c->rope_local_rotary_dim = (uint32_t)rotated;
    Status status = rope_add(source, "rope.freqs.1", rope, error);
    c->rope_local_attention_factor = c->rope_attention_factor;
    c->rope_theta = first_theta;
    c->rope_attention_factor = first_factor;
    return status;
}

/* ---- config.json ---- */

/* Sets the kind of RoPE scaling from its name in config.json. */
static Status scaling_from_name(Rope *rope, const char *name, Error *error) {
    static const struct {
        const char *name;
        RopeScaling scaling;
    } names[] = {{"default", ROPE_DEFAULT},
                 {"linear", ROPE_LINEAR},
                 {"llama3", ROPE_LLAMA3},
                 {"yarn", ROPE_YARN},
                 {"deepseek_yarn", ROPE_YARN}, /* its name in the first files of Sarvam 105B */
                 {"longrope", ROPE_LONGROPE},
                 {"su", ROPE_LONGROPE}, /* its name in the first files of Phi 3 */
                 {"dynamic", ROPE_DYNAMIC},
                 {"proportional", ROPE_PROPORTIONAL}};
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

static Status read_longrope(Rope *rope, const RopeKeys *keys, const json_t *parameters,
                            Error *error) {
    size_t n = n_frequencies(rope);
    if (!(rope->original_context < 1 << 28))
        return error_set(error, "config.json: RoPE scaling: original context %g",
                         rope->original_context);
    double of_long = keys->has_mscales ? json_number(parameters, "long_mscale", 0.0) : 0.0;
    if (keys->has_mscales && of_long != json_number(parameters, "short_mscale", 0.0))
        return error_set(error, "config.json: RoPE scaling: long_mscale is not short_mscale");
    if (of_long != 0.0) rope->attention_factor = of_long;
    if (read_factors(&rope->factors, parameters, "long_factor", n, error) != STATUS_OK)
        return STATUS_FAILED;
    return read_factors(&rope->short_factors, parameters, "short_factor", n, error);
}

/* A parameter. One that is null means the same as an absent one, for every parameter that is read
 * with this. */
static double parameter(const json_t *parameters, const char *key, double absent) {
    return json_number(parameters, key, absent);
}

/* Like `parameter`, where 0 means the same as absent as well. */
static double not_zero(const json_t *parameters, const char *key, double absent) {
    double value = json_number(parameters, key, absent);
    return value == 0.0 ? absent : value;
}

static const char *kind_of_layers(bool local) {
    return local ? "sliding_attention" : "full_attention";
}

/* The first layer of the kind; SIZE_MAX: there is none. */
static size_t first_layer(const json_t *json, bool local) {
    const json_t *types = json_value(json, "layer_types"), *type;
    size_t i;
    if (!types) return local ? SIZE_MAX : 0;
    json_array_foreach((json_t *)types, i, type) {
        const char *text = json_string_value(type);
        if (text && strcmp(text, kind_of_layers(local)) == 0) return i;
    }
    return SIZE_MAX;
}

/* Step 3.5: whether rope_parameters has an object for each kind of layers that the model has. */
static bool has_nested(const json_t *json) {
    const json_t *all = json_value(json, "rope_parameters");
    for (int local = 0; local < 2; local++)
        if (first_layer(json, local) != SIZE_MAX &&
            !json_is_object(json_value(all, kind_of_layers(local))))
            return false;
    return true;
}

/* YaRN's truncate inside the parameters of one kind of layers has no effect: transformers reads it
 * from the object around them. */
static void inherit_truncate(json_t *parameters, const json_t *all) {
    json_t *truncate = json_object_get(all, "truncate");
    json_object_del(parameters, "truncate");
    if (truncate) json_object_set(parameters, "truncate", truncate);
}

/* Gathers the RoPE parameters of one kind of layers from lists that have an element a layer. Step
 * 3.5: a kind of layers has the parameters that the lists give its first layer; layers with full
 * attention also have the parameters of rope_scaling. */
static Status listed_parameters(const json_t *json, bool local, json_t **out, Error *error) {
    static const char *const keys[] = {"rope_theta", "partial_rotary_factors"};
    static const char *const names[] = {"rope_theta", "partial_rotary_factor"};
    size_t layer = first_layer(json, local);
    *out = json_pack("{s:s}", "rope_type", "default");
    for (int k = 0; k < 2 && layer != SIZE_MAX; k++) {
        json_t *value = (json_t *)json_value(json, keys[k]);
        if (json_is_array(value) && (k == 0 || json_array_size(value) > 0))
            value = json_array_get(value, layer);
        else if (k == 1)
            continue;
        if (!value && !json_value(json, keys[k])) continue;
        if (!json_is_number(value))
            return error_set(error, "config.json: %s has no number for layer %zu", keys[k], layer);
        json_object_set(*out, names[k], value);
    }
    const json_t *scaling = json_value(json, "rope_scaling");
    if (!local && json_is_object(scaling)) json_object_update(*out, (json_t *)scaling);
    inherit_truncate(*out, NULL);
    return STATUS_OK;
}

/* Finds the parameters of families whose kinds of layers have their own: *out is a copy. */
static Status nested_parameters(const RopeKeys *keys, const json_t *json, bool local, json_t **out,
                                Error *error) {
    const json_t *all = json_value(json, "rope_parameters"), *full = NULL, *sliding = NULL;
    const char *names[] = {kind_of_layers(false), kind_of_layers(true)};
    if (keys->hybrid) names[0] = "hybrid", names[1] = "hybrid_sliding";
    full = json_value(all, names[0]);
    sliding = json_value(all, names[1]);
    if (all && (!json_is_object(all) || (!full && !sliding && json_object_size(all) > 0)))
        return error_set(error, "config.json: rope_parameters has neither %s nor %s", names[0],
                         names[1]);
    const json_t *own = local ? sliding : full;
    if (own && !json_is_object(own))
        return error_set(error, "config.json: rope_parameters.%s is not an object", names[local]);
    bool is_absent = !all && keys->absent && (!local || keys->hybrid);
    *out = own         ? json_copy((json_t *)own)
           : is_absent ? json_reader_load(keys->absent, strlen(keys->absent), 0, NULL)
                       : json_object();
    const json_t *scaling = keys->hybrid ? NULL : json_value(json, "rope_scaling");
    const char *old = keys->layer_lists ? NULL : json_text(scaling, "type");
    if (!local && old && strcmp(old, "default") != 0 && !json_text(scaling, "rope_type"))
        return error_set(error,
                         "config.json: rope_scaling names its kind '%.40s' by the old key 'type', "
                         "which transformers ignores for this model_type: call it rope_type",
                         old);
    if ((!local || keys->scales_both) && json_is_object(scaling) && !keys->layer_lists)
        json_object_update(*out, (json_t *)scaling);
    inherit_truncate(*out, all);
    return STATUS_OK;
}

/* DeepSeek V4 (RopeKeys.compressed): makes *out the parameters of the layers with rope_table 1
 * (`local`: `compress`) or 0 (`main`). Where one of these objects is missing, all parameters are
 * for table 1. */
static Status compressed_parameters(const json_t *json, bool local, json_t **out, Error *error) {
    const json_t *all = json_value(json, "rope_scaling");
    if (!json_is_object(all) || json_object_size(all) == 0)
        all = json_value(json, "rope_parameters");
    json_t *main = json_object_get(all, "main"), *compress = json_object_get(all, "compress");
    bool nested = json_is_object(main) && json_is_object(compress);
    json_t *own = nested && local ? compress : nested ? main : local ? (json_t *)all : NULL;
    *out = json_is_object(own) ? json_copy(own) : json_object();
    if (!*out) return error_set(error, "no memory for RoPE parameters");
    json_object_del(*out, "truncate"); /* as inherit_truncate has it */
    const char *kind = json_text(*out, "rope_type");
    if (!kind) kind = json_text(*out, "type");
    bool yarn = kind && strcmp(kind, "yarn") == 0;
    if (kind && !yarn && strcmp(kind, "default") != 0 && strcmp(kind, "linear") != 0 &&
        strcmp(kind, "llama3") != 0)
        return error_set(
            error, "config.json: RoPE scaling '%.40s', which this model_type cannot have", kind);
    if (nested) {
        if (!json_object_get(*out, "partial_rotary_factor"))
            json_object_set_new(*out, "partial_rotary_factor", json_real(1.0));
        return STATUS_OK;
    }
    json_object_del(*out, "main");
    json_object_del(*out, "compress");
    json_object_del(*out, "partial_rotary_factor");
    double theta = local ? json_number(json, "compress_rope_theta", 160000.0)
                         : json_number(json, "rope_theta", 10000.0);
    json_object_set_new(*out, "rope_theta", json_real(theta));
    /* YaRN multiplies sines and cosines there only where a factor is given. */
    if (yarn && !json_object_get(*out, "attention_factor"))
        json_object_set_new(*out, "attention_factor", json_real(1.0));
    return STATUS_OK;
}

/* dots3 note (RopeKeys.by_layer_type): makes *out the parameters of the layers with rope_table 1
 * (`local`: sliding_attention) or 0 (indexed_attention and full_attention, which must be the same).
 * Parameters that name no kind of layers apply to all layers, with one base. */
static Status typed_parameters(const RopeKeys *keys, const json_t *json, bool local, json_t **out,
                               Error *error) {
    const json_t *all = json_value(json, "rope_parameters"), *scaling;
    scaling = json_value(json, "rope_scaling");
    if (!all && json_object_size(scaling) > 0) all = scaling;
    if (all && !json_is_object(all))
        return error_set(error, "config.json: rope_parameters is not an object");
    const json_t *indexed = json_value(all, "indexed_attention"),
                 *full = json_value(all, "full_attention"),
                 *sliding = json_value(all, "sliding_attention");
    if (!local && indexed && full && !json_equal((json_t *)indexed, (json_t *)full))
        return error_set(error, "config.json: RoPE of indexed_attention and full_attention differ, "
                                "which this program cannot compute");
    bool nested = indexed || full || sliding;
    const json_t *own = !nested ? all : local ? sliding : indexed ? indexed : full;
    if (own && !json_is_object(own))
        return error_set(error, "config.json: RoPE parameters of a kind of layers are no object");
    *out = own ? json_copy((json_t *)own) : json_object();
    if (!*out) return error_set(error, "no memory for RoPE parameters");
    json_object_del(*out, "partial_rotary_factor"); /* qk_rope_head_dim decides */
    inherit_truncate(*out, nested ? all : NULL);
    if (!json_value(*out, "rope_theta")) {
        double theta = !all && local ? json_number(json, keys->local_theta_key, keys->local_theta)
                                     : json_number(json, "rope_theta", keys->local_theta_given);
        json_object_set_new(*out, "rope_theta", json_real(theta));
    }
    return STATUS_OK;
}

static Status find_any_parameters(const RopeKeys *keys, const json_t *json, bool local,
                                  json_t **out, Error *error) {
    if (keys->compressed) return compressed_parameters(json, local, out, error);
    if (keys->by_layer_type) return typed_parameters(keys, json, local, out, error);
    if (keys->layer_lists && !has_nested(json)) return listed_parameters(json, local, out, error);
    if (keys->local_theta > 0.0) return nested_parameters(keys, json, local, out, error);
    const json_t *chosen = json_value(json, "rope_scaling"), *value;
    if (!json_is_object(chosen) || json_object_size(chosen) == 0)
        chosen = json_value(json, "rope_parameters");
    if (!json_is_object(chosen)) {
        *out = keys->absent ? json_reader_load(keys->absent, strlen(keys->absent), 0, NULL) : NULL;
        return STATUS_OK;
    }
    const char *key;
    json_object_foreach((json_t *)chosen, key, value) {
        if (json_is_object(value))
            return error_set(error,
                             "config.json: RoPE parameters for '%.40s' alone are not known "
                             "for this model_type",
                             key);
    }
    *out = json_copy((json_t *)chosen);
    return STATUS_OK;
}

/* Refuses Infinity and NaN (json_reader.h says what they are read as), which would count as absent.
 */
static Status refuse_infinite(const json_t *object, const char *key, Error *error) {
    const json_t *value = key ? json_value(object, key) : NULL;
    bool is_infinite = json_is_array(value) && json_array_size(value) == 0;
    bool is_nan = json_is_object(value) && json_object_size(value) == 0;
    if (!is_infinite && !is_nan) return STATUS_OK;
    return error_set(error, "config.json: %.60s is %s", key, is_nan ? "NaN" : "infinite");
}

/* Finds the parameters: *out is an object to free, or NULL where config.json has none. Bases beside
 * them must be finite, and so must they be. */
static Status find_parameters(const RopeKeys *keys, const json_t *json, bool local, json_t **out,
                              Error *error) {
    static const char *const numbers[] = {
        "rope_theta",      "factor",           "partial_rotary_factor",
        "beta_fast",       "beta_slow",        "original_max_position_embeddings",
        "mscale",          "mscale_all_dim",   "attention_factor",
        "low_freq_factor", "high_freq_factor", "alpha"};
    const char *const bases[] = {"rope_theta", keys->theta, keys->local_theta_key,
                                 keys->compressed ? "compress_rope_theta" : NULL};
    *out = NULL;
    if (keys->none) return STATUS_OK;
    Status status = STATUS_OK;
    for (size_t i = 0; i < sizeof bases / sizeof *bases && status == STATUS_OK; i++)
        status = refuse_infinite(json, bases[i], error);
    if (status == STATUS_OK) status = find_any_parameters(keys, json, local, out, error);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers && status == STATUS_OK; i++)
        status = refuse_infinite(*out, numbers[i], error);
    return status;
}

static Status read_scaling_name(Rope *rope, const RopeKeys *keys, const json_t *parameters,
                                Error *error) {
    const char *name = json_text(parameters, "rope_type");
    if (!name) name = json_text(parameters, "type");
    if (!name) return STATUS_OK;
    if (keys->has_sections && strcmp(name, "mrope") == 0) name = "default";
    if (keys->has_xdrope && strcmp(name, "xdrope") == 0) name = "dynamic";
    if (scaling_from_name(rope, name, error) != STATUS_OK) return STATUS_FAILED;
    if (keys->yarn_is_longrope && rope->scaling == ROPE_YARN) rope->scaling = ROPE_LONGROPE;
    return STATUS_OK;
}

/* Reads the part of a head that is rotated. Families that rotate whole heads ignore it without a
 * scaling; transformers cannot run them with a scaling and a part. */
static Status read_part(const RopeKeys *keys, const json_t *json, const json_t *parameters,
                        const Rope *rope, const Config *config, double *part, Error *error) {
    const char *key = keys->part ? keys->part : "partial_rotary_factor";
    const json_t *beside = json_object_get(json, key);
    bool is_read = keys->part || rope->scaling != ROPE_DEFAULT;
    *part = keys->part ? keys->part_absent : 1.0;
    if (keys->none || keys->by_layer_type || !is_read) return STATUS_OK;
    /* null is not handed on to the parameters, whose lack of a part means the whole head; DeepSeek
     * V4's class gives it the value that its absence has. */
    if (json_is_null(beside) && !keys->count) *part = 1.0;
    if (keys->count && json_value(json, keys->count))
        *part = json_number(json, keys->count, 0.0) / config->head_dim;
    *part = parameter(parameters, "partial_rotary_factor", json_number(json, key, *part));
    if (!(*part > 0.0 && *part <= 1.0))
        return error_set(error, "config.json: %s is %g", key, *part);
    bool is_given = (uint32_t)(*part * config->head_dim) == config->rotary_dim;
    if (!keys->part && *part != 1.0 && !is_given && rope->scaling != ROPE_PROPORTIONAL)
        return error_set(error, "config.json: %s is %g, but this model_type rotates whole heads",
                         key, *part);
    return STATUS_OK;
}

/* The width; a part of it is rotated. */
static double rotated_width(const RopeKeys *keys, const json_t *json, const Config *config) {
    return keys->width ? json_number(json, keys->width, config->head_dim) : config->head_dim;
}

Status rope_set_rotary_dim(const RopeKeys *keys, const json_t *json, Config *config, Error *error) {
    json_t *parameters;
    Rope rope = rope_default(10000.0, 0);
    double part = 1.0;
    if (config->rotary_dim > 0) return STATUS_OK;
    Status status = find_parameters(keys, json, false, &parameters, error);
    if (status == STATUS_OK) status = read_scaling_name(&rope, keys, parameters, error);
    if (status == STATUS_OK)
        status = read_part(keys, json, parameters, &rope, config, &part, error);
    json_decref(parameters);
    if (status != STATUS_OK) return status;
    if (rope.scaling == ROPE_PROPORTIONAL) part = 1.0;
    double width = rotated_width(keys, json, config);
    if (!(width > 0 && width * part <= config->head_dim))
        return error_set(error, "config.json: %s is %g, but a head is %u elements wide",
                         keys->width ? keys->width : "part", width, config->head_dim);
    config->rotary_dim = (uint32_t)(width * part);
    if (keys->part_is_even && config->rotary_dim % 2)
        return error_set(error,
                         "config.json: %s is %g, which rotates %u elements of a head, but "
                         "must rotate an even number",
                         keys->part, part, config->rotary_dim);
    config->rotary_dim += config->rotary_dim % 2; /* as transformers does */
    return STATUS_OK;
}

/* The first base of the list layer_rope_theta that is not 0, or the second one that differs from it
 * (`second`). 0: there is none. */
static double layer_theta(const json_t *json, bool second) {
    const json_t *list = json_value(json, "layer_rope_theta");
    double first = 0.0;
    for (size_t i = 0; i < json_array_size(list); i++) {
        double theta = json_number_value(json_array_get(list, i));
        if (first == 0.0) first = theta;
        if (second && theta != 0.0 && theta != first) return theta;
    }
    return second ? 0.0 : first;
}

Status rope_layer_tables(const json_t *json, Config *config, Error *error) {
    const json_t *list = json_value(json, "layer_rope_theta");
    if (!list) return STATUS_OK;
    if (json_array_size(list) < config->n_layers)
        return error_set(error, "config.json: layer_rope_theta is not a list of %u layers",
                         config->n_layers);
    double first = layer_theta(json, false), second = layer_theta(json, true);
    for (uint32_t i = 0; i < config->n_layers; i++) {
        double theta = json_number_value(json_array_get(list, i));
        if (theta != 0.0 && theta != first && theta != second)
            return error_set(error,
                             "config.json: layer_rope_theta has more than two bases, which this "
                             "program cannot compute");
        config->rope_table[i] = theta == 0.0 ? 2 : theta == first ? 0 : 1;
    }
    return STATUS_OK;
}

Status rope_score_factor(const RopeKeys *keys, const json_t *json, double *factor, Error *error) {
    json_t *parameters;
    Rope rope = rope_default(10000.0, 0);
    *factor = 1.0;
    Status status = find_parameters(keys, json, false, &parameters, error);
    if (status == STATUS_OK) status = read_scaling_name(&rope, keys, parameters, error);
    double mscale = parameter(parameters, "mscale_all_dim", 0.0);
    if (status == STATUS_OK && rope.scaling != ROPE_DEFAULT && mscale != 0.0) {
        double once = yarn_mscale(parameter(parameters, "factor", 1.0), mscale);
        *factor = once * once;
    }
    json_decref(parameters);
    return status;
}

/* Reads rope_theta, for all layers or for those with a window (`local`). In order of precedence: a
 * list by layer, rope_parameters, the family's key, the family's default. */
static Status read_base(Rope *rope, const RopeKeys *keys, const json_t *json,
                        const json_t *parameters, bool local, const Config *config, Error *error) {
    bool other_base = local && !keys->scaled_layers;
    const char *key = other_base ? keys->local_theta_key : keys->theta ? keys->theta : "rope_theta";
    double absent = other_base ? keys->local_theta : (double)config->rope_theta;
    if (local && keys->local_theta_given > 0.0 && json_value(json, "rope_parameters")) {
        key = "rope_theta";
        absent = keys->local_theta_given;
    }
    if (!keys->none) absent = parameter(parameters, "rope_theta", json_number(json, key, absent));
    double of_layers = keys->layer_thetas ? layer_theta(json, local) : 0.0;
    rope->theta = of_layers != 0.0 ? of_layers : absent;
    if (rope->theta > 1.0 && isfinite((float)rope->theta)) return STATUS_OK;
    return error_set(error, "config.json: %s is %g", key, rope->theta);
}

/* HunYuan's dynamic scaling with an alpha: plain RoPE with a larger base. */
static Status use_alpha(Rope *rope, const RopeKeys *keys, const json_t *parameters, Error *error) {
    const json_t *given = json_value(parameters, "alpha");
    double alpha = keys->has_alpha ? parameter(parameters, "alpha", 0.0) : 0.0;
    if (!keys->has_alpha || rope->scaling != ROPE_DYNAMIC) return STATUS_OK;
    if (given && (!(json_is_number(given) || json_is_boolean(given)) || !(alpha >= 0.0)))
        return error_set(error, "config.json: RoPE scaling: alpha is not a positive number");
    if (alpha == 0.0 || rope->dim <= 2) return STATUS_OK;
    rope->theta *= pow(alpha, (double)rope->dim / ((double)rope->dim - 2.0));
    rope->scaling = ROPE_DEFAULT;
    if (rope->theta > 1.0 && isfinite((float)rope->theta)) return STATUS_OK;
    return error_set(error, "config.json: RoPE scaling: alpha is %g", alpha);
}

/* Reads what the scaling needs. */
static Status read_scaling(Rope *rope, const RopeKeys *keys, const json_t *json,
                           const json_t *parameters, const Config *config, Error *error) {
    static const char original_key[] = "original_max_position_embeddings";
    double context = config->context;
    double original = parameter(parameters, original_key, context);
    if (keys->original_context > 0.0) original = keys->original_context;
    if (keys->local_theta == 0.0) original = json_number(json, original_key, original);
    rope->original_context = original;
    bool has_factor = rope->scaling == ROPE_YARN || rope->scaling == ROPE_LONGROPE;
    rope->factor = parameter(parameters, "factor", has_factor ? context / original : 1.0);
    rope->low_freq_factor = parameter(parameters, "low_freq_factor", 1.0);
    rope->high_freq_factor = parameter(parameters, "high_freq_factor", 4.0);
    rope->beta_fast = not_zero(parameters, "beta_fast", 32.0);
    rope->beta_slow = not_zero(parameters, "beta_slow", 1.0);
    rope->mscale = parameter(parameters, "mscale", 0.0);
    rope->mscale_all_dim = parameter(parameters, "mscale_all_dim", 0.0);
    rope->attention_factor = parameter(parameters, "attention_factor", NAN);
    const json_t *truncate = json_object_get(parameters, "truncate");
    rope->truncate = !truncate || json_is_true(truncate);
    if (!(rope->factor > 0.0) || !(rope->original_context > 0.0))
        return error_set(error,
                         "config.json: the RoPE scaling's factor is %g, its original "
                         "context %g",
                         rope->factor, rope->original_context);
    if (rope->scaling == ROPE_DYNAMIC) rope->original_context = config->context;
    if (rope->scaling == ROPE_LONGROPE) return read_longrope(rope, keys, parameters, error);
    return STATUS_OK;
}

Status rope_parameter(const RopeKeys *keys, const json_t *json, const char *key, double absent,
                      double *out, Error *error) {
    json_t *parameters;
    Status status = find_parameters(keys, json, false, &parameters, error);
    *out = parameter(parameters, key, absent);
    json_decref(parameters);
    return status;
}

Status rope_query_scaling(const RopeKeys *keys, const json_t *json, Config *config, Error *error) {
    double beta, context;
    if (!keys->has_query_scaling) return STATUS_OK;
    if (rope_parameter(keys, json, "llama_4_scaling_beta", 0, &beta, error) != STATUS_OK ||
        rope_parameter(keys, json, "original_max_position_embeddings", 0, &context, error) !=
            STATUS_OK)
        return STATUS_FAILED;
    if (beta == 0.0) return STATUS_OK;
    if (!(context >= 1 && context <= 1 << 28 && context == floor(context)))
        return error_set(error, "config.json: original_max_position_embeddings is %g", context);
    config->query_scaling = (float)beta;
    config->query_scaling_floor = (uint32_t)context;
    return STATUS_OK;
}

Status rope_from_json(Rope *rope, const RopeKeys *keys, const json_t *json, bool local,
                      const Config *config, Error *error) {
    json_t *parameters;
    double part = 1.0;
    *rope =
        rope_default(10000.0, local && config->rope_local_rotary_dim ? config->rope_local_rotary_dim
                                                                     : config->rotary_dim);
    rope->reversed = keys->reversed;
    Status status = find_parameters(keys, json, local, &parameters, error);
    if (status == STATUS_OK) status = read_base(rope, keys, json, parameters, local, config, error);
    if (status == STATUS_OK) status = read_scaling_name(rope, keys, parameters, error);
    if (local && keys->scaled_layers) rope->scaling = ROPE_DEFAULT;
    if (status == STATUS_OK) status = read_part(keys, json, parameters, rope, config, &part, error);
    if (status == STATUS_OK && rope->scaling == ROPE_PROPORTIONAL)
        rope->part = part;
    else if (status == STATUS_OK && keys->part)
        rope->dim = (size_t)(rotated_width(keys, json, config) * part);
    if (status == STATUS_OK && rope->scaling == ROPE_YARN && rope->dim % 2)
        status = error_set(error,
                           "config.json: RoPE scaling yarn of %zu elements of a head, which must "
                           "be an even number",
                           rope->dim);
    if (status == STATUS_OK) status = use_alpha(rope, keys, parameters, error);
    if (status == STATUS_OK && rope->scaling != ROPE_DEFAULT)
        status = read_scaling(rope, keys, json, parameters, config, error);
    json_decref(parameters);
    return status;
}
