/* The text half of IDEFICS, as its class reads a text that attends to no image. Cross attention
 * then adds nothing, but the gated feed-forward after it still does: it becomes a layer of its own
 * here, whose w_down is multiplied by the gate. */
#include "base/numbers.h"
#include "families/shared.h"

/* A gated feed-forward stands before layer 0 and every interval-th layer from there. */
static Status idefics_finish(const json_t *json, Config *c, Error *error) {
    uint32_t interval, added, stored = c->n_layers;
    if (family_read_whole(json, "cross_layer_interval", 1, 1, 1 << 20, &interval, error) !=
            STATUS_OK ||
        family_read_whole(json, "additional_vocab_size", 0, 0, 1 << 20, &added, error) != STATUS_OK)
        return STATUS_FAILED;
    if (stored % interval != 0 || stored > CONFIG_MAX_LAYERS ||
        stored + stored / interval > CONFIG_MAX_LAYERS)
        return error_set(error, "config.json: num_hidden_layers is %u, cross_layer_interval %u",
                         stored, interval);
    if (c->vocab_size > 1 << 24)
        return error_set(error, "config.json: vocab_size is %u", c->vocab_size);
    c->vocab_size += added;
    c->n_layers = stored + stored / interval;
    for (uint32_t l = 0; l < c->n_layers; l++)
        c->layer_kind[l] = l % (interval + 1) == 0 ? LAYER_NONE : LAYER_ATTENTION;
    return STATUS_OK;
}

/* Adds `to`[vocab_size][dim]: the rows of one matrix, then the rows of the added tokens. */
static Status add_both(const RuleContext *context, const char *to, const char *from,
                       const char *added, size_t n_added, Error *error) {
    const Config *c = &context->source->config;
    size_t dim = c->dim, first = c->vocab_size - n_added;
    float *rows = NULL, *more = NULL;
    Status status = rules_read(context, from, first, dim, &rows, error);
    if (status == STATUS_OK) status = rules_read(context, added, n_added, dim, &more, error);
    float *both =
        status == STATUS_OK ? realloc(rows, (first + n_added) * dim * sizeof *rows) : NULL;
    if (both) {
        memcpy(both + first * dim, more, n_added * dim * sizeof *more);
        status = source_add_values(context->source, to, first + n_added, dim, both, error);
        if (status == STATUS_OK)
            context->source->tensors[context->source->n_tensors - 1].is_vector = false;
    } else {
        free(rows);
        if (status == STATUS_OK) status = error_set(error, "no memory for '%s'", to);
    }
    free(more);
    return status;
}

/* Adds the embedding and the output head. */
static Status add_tokens(const RuleContext *context, const json_t *json, Error *error) {
    static const TensorRule rules[] = {EMBEDDING("model.embed_tokens"), OUTPUT("lm_head"), {0}};
    uint32_t n;
    if (family_read_whole(json, "additional_vocab_size", 0, 0, 1 << 20, &n, error) != STATUS_OK)
        return STATUS_FAILED;
    if (n == 0) return rules_apply(context, rules, error);
    if (n >= context->source->config.vocab_size)
        return error_set(error, "config.json: additional_vocab_size is %u", n);
    bool is_head = context->tied && !rules_find(context, "model.embed_tokens.weight");
    if (add_both(context, "token_embedding",
                 is_head ? "lm_head.weight" : "model.embed_tokens.weight",
                 is_head ? "lm_head.additional_fc.weight"
                         : "model.embed_tokens.additional_embedding.weight",
                 n, error) != STATUS_OK)
        return STATUS_FAILED;
    if (context->tied && !rules_find(context, "lm_head.weight"))
        return source_add_shared(context->source, "output", "token_embedding",
                                 context->source->config.vocab_size, context->source->config.dim,
                                 error);
    return add_both(context, "output", "lm_head.weight", "lm_head.additional_fc.weight", n, error);
}

static float hyperbolic_tangent(float x) {
    double bound = fmax(-20.0, fmin(20.0, (double)x)); /* beyond, it is 1 in float32 */
    return (float)(1.0 - 2.0 / (1.0 + numbers_power(exp(1.0), 2.0 * bound)));
}

/* Multiplies the rows of the layer's w_down by tanh(alpha_dense), one number or one for each row.
 */
static Status scale_down(const RuleContext *context, const char *alpha, uint32_t layer,
                         Error *error) {
    Source *source = context->source;
    const RawTensor *stored = rules_find(context, alpha);
    size_t dim = source->config.dim, n = stored && stored->n_dims == 1 ? 1 : dim;
    float *scales = NULL, *wide;
    char name[48];
    if (rules_read(context, alpha, 1, n, &scales, error) != STATUS_OK) return STATUS_FAILED;
    wide = realloc(scales, dim * sizeof *scales);
    if (!wide) {
        free(scales);
        return error_set(error, "no memory for '%s'", alpha);
    }
    for (size_t k = dim; k-- > 0;) wide[k] = hyperbolic_tangent(wide[n == 1 ? 0 : k]);
    snprintf(name, sizeof name, "layers.%u.w_down", layer);
    for (size_t i = 0; i < source->n_tensors; i++)
        if (strcmp(source->tensors[i].name, name) == 0) {
            source->tensors[i].row_scales = wide;
            return STATUS_OK;
        }
    free(wide);
    return error_set(error, "%s: tensor '%s' is missing", source->path, name);
}

/* Adds the embeddings, the decoder layers and, between them, the gated cross-attention layers.
 * With text alone only the feed-forward of the latter counts; tanh(alpha_dense) is folded into its
 * w_down. */
static Status idefics_more(const RuleContext *context, const json_t *json, Error *error) {
    static const TensorRule decoder[] = {LLAMA_NORMS, LLAMA_ATTENTION, LLAMA_FFN, {0}};
    static const TensorRule gated[] = {
        NORM("ffn_norm", ".post_attention_layernorm"), LLAMA_FFN, {0}};
    const Config *c = &context->source->config;
    uint32_t n_gated = 0, n_plain = 0;
    RuleContext at = *context;
    char name[64], alpha[96];
    Status status = add_tokens(context, json, error);
    at.layers = name;
    for (uint32_t l = 0; status == STATUS_OK && l < c->n_layers; l++) {
        bool is_gated = c->layer_kind[l] == LAYER_NONE;
        snprintf(name, sizeof name, "model.%slayers.%u.", is_gated ? "gated_cross_attn_" : "",
                 is_gated ? n_gated++ : n_plain++);
        status = rules_apply_to_layer(&at, is_gated ? gated : decoder, l, error);
        if (status != STATUS_OK || !is_gated) continue;
        snprintf(alpha, sizeof alpha, "%salpha_dense", name);
        status = scale_down(context, alpha, l, error);
    }
    return status;
}

const FamilyHook families_idefics[] = {
    {"idefics", .finish = idefics_finish, .more = idefics_more},
    {0},
};
