#include "rope_scaling.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double PI = 3.14159265358979323846;

/* The number under `key`, or `otherwise` when there is none (or null). NaN `otherwise`: it must
 * be there. */
static Status number(const json_t *object, const char *key, double otherwise, double *value,
                     Error *error) {
    const json_t *found = json_object_get(object, key);
    *value = otherwise;
    if (json_is_number(found)) *value = json_number_value(found);
    if (found && !json_is_number(found) && !json_is_null(found))
        return error_set(error, "rope_scaling: '%s' is not a number", key);
    if (isnan(otherwise) && !json_is_number(found))
        return error_set(error, "rope_scaling: '%s' is missing", key);
    return STATUS_OK;
}

static Status positive(const json_t *object, const char *key, double otherwise, double *value,
                       Error *error) {
    if (number(object, key, otherwise, value, error) != STATUS_OK) return STATUS_FAILED;
    if (!(*value > 0 && *value < 1e12))
        return error_set(error, "rope_scaling: '%s' is %g, but must be above 0", key, *value);
    return STATUS_OK;
}

/* The original context: the configuration's own key wins over the scaling's. */
static Status original_context(const json_t *scaling, const RopeModel *model, double *original,
                               Error *error) {
    const char *key = "original_max_position_embeddings";
    if (positive(scaling, key, (double)model->context, original, error) != STATUS_OK)
        return STATUS_FAILED;
    if (model->original_context) *original = (double)model->original_context;
    return STATUS_OK;
}

/* base^(2i / dim) in float32. */
static float power(double base, size_t i, size_t dim) {
    return (float)pow((double)(float)base, (double)((float)(2 * i) / (float)dim));
}

static Status scale_linear(RopeTable *table, const RopeModel *model, const json_t *scaling,
                           Error *error) {
    double factor;
    if (positive(scaling, "factor", NAN, &factor, error) != STATUS_OK) return STATUS_FAILED;
    for (size_t i = 0; i < model->rotary_dim / 2; i++) table->freqs[i] /= (float)factor;
    return STATUS_OK;
}

/* Llama 3.1: long waves are stretched by the factor, short ones kept, those between blended. */
static Status scale_llama3(RopeTable *table, const RopeModel *model, const json_t *scaling,
                           Error *error) {
    double factor, low, high, original;
    if (positive(scaling, "factor", NAN, &factor, error) != STATUS_OK ||
        positive(scaling, "low_freq_factor", NAN, &low, error) != STATUS_OK ||
        positive(scaling, "high_freq_factor", NAN, &high, error) != STATUS_OK ||
        original_context(scaling, model, &original, error) != STATUS_OK)
        return STATUS_FAILED;
    if (high == low) return error_set(error, "rope_scaling: high_freq_factor is low_freq_factor");
    for (size_t i = 0; i < model->rotary_dim / 2; i++) {
        float freq = table->freqs[i], wave = 1.0f / freq * (float)(2 * PI);
        float stretched = freq / (float)factor;
        if (wave > (float)(original / low)) {
            table->freqs[i] = stretched;
        } else if (!(wave < (float)(original / high))) {
            float smooth = (1.0f / wave * (float)original - (float)low) / (float)(high - low);
            table->freqs[i] = (1.0f - smooth) * freq / (float)factor + smooth * freq;
        }
    }
    return STATUS_OK;
}

static double mscale(double scale, double m) {
    return scale <= 1 ? 1.0 : 0.1 * m * log(scale) + 1.0;
}

/* The (fractional) pair that turns `rotations` times over the context. */
static double correction_pair(const RopeModel *model, double rotations, double original) {
    return (double)model->rotary_dim * log(original / (rotations * 2 * PI)) /
           (2 * log(model->theta));
}

/* YaRN (arXiv:2309.00071): slow pairs are interpolated, fast ones kept, a ramp between. */
static Status scale_yarn(RopeTable *table, const RopeModel *model, const json_t *scaling,
                         Error *error) {
    double original, factor, fast, slow, m, m_all, attention;
    if (original_context(scaling, model, &original, error) != STATUS_OK ||
        positive(scaling, "factor", (double)model->context / original, &factor, error) !=
            STATUS_OK ||
        number(scaling, "beta_fast", 32, &fast, error) != STATUS_OK ||
        number(scaling, "beta_slow", 1, &slow, error) != STATUS_OK ||
        number(scaling, "mscale", 0, &m, error) != STATUS_OK ||
        number(scaling, "mscale_all_dim", 0, &m_all, error) != STATUS_OK ||
        number(scaling, "attention_factor", 0, &attention, error) != STATUS_OK)
        return STATUS_FAILED;
    if (fast == 0) fast = 32;
    if (slow == 0) slow = 1;
    if (attention == 0)
        attention =
            m != 0 && m_all != 0 ? mscale(factor, m) / mscale(factor, m_all) : mscale(factor, 1);
    table->attention_factor = (float)attention;
    if (!(model->theta > 1)) return error_set(error, "rope_theta is %g", model->theta);
    double low = correction_pair(model, fast, original);
    double high = correction_pair(model, slow, original);
    if (!json_is_false(json_object_get(scaling, "truncate"))) {
        low = floor(low);
        high = ceil(high);
    }
    if (low < 0) low = 0;
    if (high > (double)model->rotary_dim - 1) high = (double)model->rotary_dim - 1;
    if (low == high) high += 0.001;
    for (size_t i = 0; i < model->rotary_dim / 2; i++) {
        float base = power(model->theta, i, model->rotary_dim);
        float ramp = ((float)i - (float)low) / (float)(high - low);
        ramp = ramp < 0.0f ? 0.0f : ramp > 1.0f ? 1.0f : ramp;
        float kept = 1.0f - ramp;
        float interpolated = 1.0f / ((float)factor * base), extrapolated = 1.0f / base;
        table->freqs[i] = interpolated * (1.0f - kept) + extrapolated * kept;
    }
    return STATUS_OK;
}

static Status scale_by_list(float *freqs, const RopeModel *model, const json_t *scaling,
                            const char *key, Error *error) {
    const json_t *factors = json_object_get(scaling, key);
    size_t n = model->rotary_dim / 2;
    if (json_array_size(factors) != n)
        return error_set(error, "rope_scaling: '%s' is not a list of %zu numbers", key, n);
    for (size_t i = 0; i < n; i++) {
        double factor = json_number_value(json_array_get(factors, i));
        if (!(factor > 0)) return error_set(error, "rope_scaling: '%s' holds %g", key, factor);
        freqs[i] = 1.0f / ((float)factor * power(model->theta, i, model->rotary_dim));
    }
    return STATUS_OK;
}

/* LongRoPE (arXiv:2402.13753): a factor for each pair, one list for contexts up to the
 * original one, one for longer ones. */
static Status scale_longrope(RopeTable *table, const RopeModel *model, const json_t *scaling,
                             Error *error) {
    double original, factor, attention;
    if (original_context(scaling, model, &original, error) != STATUS_OK ||
        positive(scaling, "factor", (double)model->context / original, &factor, error) !=
            STATUS_OK ||
        number(scaling, "attention_factor", 0, &attention, error) != STATUS_OK)
        return STATUS_FAILED;
    if (attention == 0) attention = factor <= 1 ? 1 : sqrt(1 + log(factor) / log(original));
    table->attention_factor = (float)attention;
    table->original_context = (uint64_t)original;
    table->short_freqs = malloc(model->rotary_dim / 2 * sizeof *table->short_freqs + 1);
    if (!table->short_freqs) return error_set(error, "no memory for RoPE frequencies");
    if (scale_by_list(table->short_freqs, model, scaling, "short_factor", error) != STATUS_OK)
        return STATUS_FAILED;
    return scale_by_list(table->freqs, model, scaling, "long_factor", error);
}

/* Also for NTK scaling that grows with the text: up to the model's context, which is as far as
 * a model of this kind is run, it changes nothing. */
static Status scale_nothing(RopeTable *table, const RopeModel *model, const json_t *scaling,
                            Error *error) {
    (void)table, (void)model, (void)scaling, (void)error;
    return STATUS_OK;
}

typedef struct RopeType {
    const char *name;
    Status (*scale)(RopeTable *, const RopeModel *, const json_t *, Error *);
} RopeType;

static const RopeType rope_types[] = {
    {"default", scale_nothing}, {"linear", scale_linear}, {"dynamic", scale_nothing},
    {"llama3", scale_llama3},   {"yarn", scale_yarn},     {"longrope", scale_longrope},
    {"su", scale_longrope}, /* LongRoPE's first name, in the first files of Phi 3 */
};

Status rope_scaling_table(RopeTable *table, const RopeModel *model, const json_t *scaling,
                          Error *error) {
    *table = (RopeTable){.attention_factor = 1.0f};
    table->freqs = malloc(model->rotary_dim / 2 * sizeof *table->freqs + 1);
    if (!table->freqs) return error_set(error, "no memory for RoPE frequencies");
    for (size_t i = 0; i < model->rotary_dim / 2; i++)
        table->freqs[i] = 1.0f / power(model->theta, i, model->rotary_dim);
    if (!json_is_object(scaling)) return STATUS_OK;
    const json_t *named = json_object_get(scaling, "rope_type");
    if (!named) named = json_object_get(scaling, "type");
    if (!named || json_is_null(named)) return STATUS_OK;
    const char *name = json_string_value(named);
    if (!name) return error_set(error, "rope_scaling: rope_type is not a string");
    for (size_t i = 0; i < sizeof rope_types / sizeof *rope_types; i++) {
        if (strcmp(name, rope_types[i].name) != 0) continue;
        Status status = rope_types[i].scale(table, model, scaling, error);
        if (status != STATUS_OK) rope_scaling_free(table);
        return status;
    }
    rope_scaling_free(table);
    return error_set(error, "rope_scaling: the type '%s' is not known", name);
}

void rope_scaling_free(RopeTable *table) {
    free(table->freqs);
    free(table->short_freqs);
    *table = (RopeTable){0};
}
