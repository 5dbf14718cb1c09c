/* Apertus: no gate, xIELU with parameters of each layer, norms of queries and keys. */
#include "families/shared.h"

/* The parameters of a layer's xIELU (arXiv:2411.13010). */
typedef struct Xielu {
    double alpha_p, alpha_n; /* before their softplus, as checkpoints hold them */
    double beta, eps;
} Xielu;

static double softplus(double x) {
    return x > 20.0 ? x : log1p(exp(x));
}

/* Adds the tensor layers.N.xielu, which Numeric.xielu reads. */
static Status xielu_add(Source *source, uint32_t layer, const Xielu *xielu, Error *error) {
    char name[64];
    float *parameters = malloc(4 * sizeof *parameters);
    if (parameters) {
        parameters[0] = (float)softplus(xielu->alpha_p);
        parameters[1] = (float)(xielu->beta + softplus(xielu->alpha_n));
        parameters[2] = (float)xielu->beta;
        parameters[3] = (float)xielu->eps;
    }
    snprintf(name, sizeof name, "layers.%u.xielu", layer);
    return source_add_values(source, name, 1, 4, parameters, error);
}

/* Reads one number of layer's xIELU; `absent` where the file lacks it. */
static Status read_parameter(const RuleContext *c, uint32_t layer, const char *name, double absent,
                             double *out, Error *error) {
    char from[128];
    float *value = NULL;
    *out = absent;
    snprintf(from, sizeof from, FROM_LAYER "mlp.act_fn.%s", layer, name);
    if (!isnan(absent) && !rules_find(c, from)) return STATUS_OK;
    if (rules_read(c, from, 1, 1, &value, error) != STATUS_OK) return STATUS_FAILED;
    *out = (double)*value;
    free(value);
    return STATUS_OK;
}

/* Adds the parameters of each layer's xIELU. */
static Status apertus_more(const RuleContext *c, const json_t *json, Error *error) {
    (void)json;
    const Config *config = &c->source->config;
    for (uint32_t i = 0; config->activation == ACTIVATION_XIELU && i < config->n_layers; i++) {
        Xielu xielu;
        if (read_parameter(c, i, "alpha_p", NAN, &xielu.alpha_p, error) != STATUS_OK ||
            read_parameter(c, i, "alpha_n", NAN, &xielu.alpha_n, error) != STATUS_OK ||
            read_parameter(c, i, "beta", 0.5, &xielu.beta, error) != STATUS_OK ||
            read_parameter(c, i, "eps", -1e-6, &xielu.eps, error) != STATUS_OK ||
            xielu_add(c->source, i, &xielu, error) != STATUS_OK)
            return STATUS_FAILED;
    }
    return STATUS_OK;
}

/* The element of layer i, or the number that holds for all layers. */
static bool gguf_number_of_layer(const GgufModel *m, const char *key, uint32_t i, double *value) {
    const GgufValue *found = gguf_find_kind(&m->gguf, key, GGUF_AS_FLOAT);
    return found && gguf_element(found, found->is_array ? i : 0, value);
}

static Status gguf_apertus_more(GgufModel *m) {
    for (uint32_t i = 0; i < m->source->config.n_layers; i++) {
        Xielu xielu;
        if (!gguf_number_of_layer(m, "xielu.alpha_p", i, &xielu.alpha_p) ||
            !gguf_number_of_layer(m, "xielu.alpha_n", i, &xielu.alpha_n) ||
            !gguf_number_of_layer(m, "xielu.beta", i, &xielu.beta) ||
            !gguf_number_of_layer(m, "xielu.eps", i, &xielu.eps))
            return error_set(m->error, "%s: xielu.* does not give 4 numbers for layer %u",
                             m->source->path, i);
        if (xielu_add(m->source, i, &xielu, m->error) != STATUS_OK) return STATUS_FAILED;
    }
    return STATUS_OK;
}

const FamilyHook families_apertus[] = {
    {"apertus", .more = apertus_more, .gguf_more = gguf_apertus_more},
    {0},
};
