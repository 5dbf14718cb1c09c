/* DiffLlama: the difference of two attentions. */
#include "families/shared.h"

/* Reads the vectors lambda_q and lambda_k of this number, and computes exp(lambda_q . lambda_k). */
static Status read_lambda(const RuleContext *c, uint32_t layer, int number, double *out,
                          Error *error) {
    size_t n = config_heads(&c->source->config, layer).head_dim;
    float *vectors[2] = {NULL, NULL};
    Status status = STATUS_OK;
    double dot = 0.0;
    for (int i = 0; status == STATUS_OK && i < 2; i++) {
        char name[96];
        snprintf(name, sizeof name, "model.layers.%u.self_attn.lambda_%c%d", layer, "qk"[i],
                 number);
        status = rules_read(c, name, 1, n, &vectors[i], error);
    }
    for (size_t i = 0; status == STATUS_OK && i < n; i++)
        dot += (double)vectors[0][i] * (double)vectors[1][i];
    free(vectors[0]);
    free(vectors[1]);
    *out = exp(dot);
    return status;
}

/* Adds what differential attention needs beside its matrices (layers/attention/differential.h). */
static Status diffllama_more(const RuleContext *c, const json_t *json, Error *error) {
    (void)json;
    const Config *config = &c->source->config;
    for (uint32_t l = 0; l < config->n_layers; l++) {
        double first, second, start = 0.8 - 0.6 * exp(-0.3 * l);
        size_t width = 2 * (size_t)config_heads(config, l).head_dim;
        char name[64];
        if (read_lambda(c, l, 1, &first, error) != STATUS_OK ||
            read_lambda(c, l, 2, &second, error) != STATUS_OK)
            return STATUS_FAILED;
        float *factor = malloc(sizeof *factor), *norm = malloc(width * sizeof *norm);
        if (factor) *factor = (float)((double)(float)first - (double)(float)second + start);
        for (size_t i = 0; norm && i < width; i++) norm[i] = (float)(1.0 - start);
        snprintf(name, sizeof name, "layers.%u.differential_factor", l);
        if (source_add_values(c->source, name, 1, 1, factor, error) != STATUS_OK) {
            free(norm);
            return STATUS_FAILED;
        }
        snprintf(name, sizeof name, "layers.%u.differential_norm", l);
        if (source_add_values(c->source, name, 1, width, norm, error) != STATUS_OK)
            return STATUS_FAILED;
    }
    return STATUS_OK;
}

const FamilyHook families_diffllama[] = {
    {"diffllama", .more = diffllama_more},
    {0},
};
