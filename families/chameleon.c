/* The text half of Chameleon, which writes no image tokens. */
#include "families/shared.h"

static const float forbidden = -1e30f;

/* Adds a bias of the logits which makes image tokens impossible: transformers sets their logits to
 * the least float32, and a bias of it gives the same probabilities at any temperature. */
static Status forbid_images(const RuleContext *context, const json_t *map, Error *error) {
    size_t vocab = context->source->config.vocab_size, n = 0;
    const char *name;
    json_t *id;
    float *bias = calloc(vocab, sizeof *bias);
    if (!bias) return error_set(error, "%s: no memory", context->source->path);
    json_object_foreach((json_t *)map, name, id) {
        if (strncmp(name, "IMGIMG", 6) != 0) continue;
        json_int_t token = json_is_integer(id) ? json_integer_value(id) : -1;
        if (token < 0 || (uint64_t)token >= vocab) {
            free(bias);
            return error_set(error, "config.json: vocabulary_map: '%.40s' is no token", name);
        }
        bias[token] = forbidden;
        n++;
    }
    if (n > 0) return source_add_values(context->source, "output.bias", 1, vocab, bias, error);
    free(bias);
    return STATUS_OK;
}

static Status chameleon_more(const RuleContext *context, const json_t *json, Error *error) {
    return forbid_images(context, json_value(json, "vocabulary_map"), error);
}

/* Files do not say which tokens are of images: llama.cpp takes the released models' tokens. */
static Status gguf_chameleon_more(GgufModel *m) {
    enum { FIRST_IMAGE = 4, END_OF_IMAGES = 8196 };
    size_t vocab = m->source->config.vocab_size;
    if (vocab < END_OF_IMAGES) return STATUS_OK;
    float *bias = calloc(vocab, sizeof *bias);
    if (!bias) return error_set(m->error, "%s: no memory", m->source->path);
    for (size_t i = FIRST_IMAGE; i < END_OF_IMAGES; i++) bias[i] = forbidden;
    return source_add_values(m->source, "output.bias", 1, vocab, bias, m->error);
}

const FamilyHook families_chameleon[] = {
    {"chameleon", .more = chameleon_more, .gguf_more = gguf_chameleon_more},
    {0},
};
