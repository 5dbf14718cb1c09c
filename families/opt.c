/* OPT: learned positions, norms before or after, embeddings of a width of their own. */
#include "families/shared.h"

static const TensorRule opt_norms[] = {
    NORM("attention_norm", ".self_attn_layer_norm"),
    NORM("ffn_norm", ".final_layer_norm"),
    NORM("final_norm", "model.decoder.final_layer_norm", .optional = true),
    {0},
};

static const TensorRule opt_embeddings[] = {
    EMBEDDING("model.decoder.embed_tokens"),
    OUTPUT("lm_head"),
    {0},
};

static Status opt_finish(const json_t *json, Config *config, Error *error) {
    (void)error;
    bool before = json_switch(json, "do_layer_norm_before", true);
    if (!before) config->norm_place = NORM_AFTER;
    config->final_norm = before && !json_flag(json, "_remove_final_layer_norm", false);
    return STATUS_OK;
}

/* Adds the tensor a[vocab_size][inner] * b[inner][dim], where element (k, i) of b is
 * b[k * row + i * column]. Each element is summed in order, in double. */
static Status multiply(Source *source, const char *name, const float *a, const float *b,
                       size_t inner, size_t row, size_t column, Error *error) {
    size_t rows = source->config.vocab_size, dim = source->config.dim;
    float *out = malloc(rows * dim * sizeof *out);
    double *sums = malloc(dim * sizeof *sums), *by_input = malloc(inner * dim * sizeof *by_input);
    for (size_t k = 0; by_input && k < inner; k++)
        for (size_t i = 0; i < dim; i++) by_input[k * dim + i] = (double)b[k * row + i * column];
    for (size_t r = 0; out && sums && by_input && r < rows; r++) {
        memset(sums, 0, dim * sizeof *sums);
        for (size_t k = 0; k < inner; k++)
            for (size_t i = 0; i < dim; i++)
                sums[i] += (double)a[r * inner + k] * by_input[k * dim + i];
        for (size_t i = 0; i < dim; i++) out[r * dim + i] = (float)sums[i];
    }
    bool worked = sums && by_input;
    free(sums);
    free(by_input);
    if (!worked) {
        free(out);
        out = NULL; /* source_add_values reports the lack of memory */
    }
    if (source_add_values(source, name, rows, dim, out, error) != STATUS_OK) return STATUS_FAILED;
    source->tensors[source->n_tensors - 1].is_vector = false;
    return STATUS_OK;
}

/* Adds the norms and the embeddings. The embeddings of OPT 350m are narrower than the model, with a
 * projection into it and one out of it. The embeddings are multiplied with the first here, and the
 * output head with the second, once. */
static Status opt_more(const RuleContext *c, const json_t *json, Error *error) {
    Source *source = c->source;
    size_t dim = source->config.dim, vocab = source->config.vocab_size;
    if (json_switch(json, "layer_norm_elementwise_affine", true) &&
        rules_apply(c, opt_norms, error) != STATUS_OK)
        return STATUS_FAILED;
    double width = json_number(json, "word_embed_proj_dim", (double)dim);
    if (width == (double)dim) return rules_apply(c, opt_embeddings, error);
    if (!(width >= 1 && width <= 1 << 18))
        return error_set(error, "config.json: word_embed_proj_dim is %g", width);
    size_t inner = (size_t)width;
    bool has_head = rules_find(c, "lm_head.weight") || !c->tied;
    const char *from = "model.decoder.embed_tokens.weight";
    if (c->tied && !rules_find(c, from)) from = "lm_head.weight"; /* the same, as for any rule */
    float *embeddings = NULL, *in = NULL, *out = NULL, *head = NULL;
    Status status = rules_read(c, from, vocab, inner, &embeddings, error);
    if (status == STATUS_OK)
        status = rules_read(c, "model.decoder.project_in.weight", dim, inner, &in, error);
    if (status == STATUS_OK)
        status = rules_read(c, "model.decoder.project_out.weight", inner, dim, &out, error);
    if (status == STATUS_OK && has_head)
        status = rules_read(c, "lm_head.weight", vocab, inner, &head, error);
    if (status == STATUS_OK)
        status = multiply(source, "token_embedding", embeddings, in, inner, 1, inner, error);
    if (status == STATUS_OK)
        status = multiply(source, "output", head ? head : embeddings, out, inner, dim, 1, error);
    free(embeddings);
    free(in);
    free(out);
    free(head);
    return status;
}

const FamilyHook families_opt[] = {
    {"opt", .finish = opt_finish, .more = opt_more},
    {0},
};
