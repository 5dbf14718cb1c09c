/* Gemma 1, 2 and 3, and VaultGemma: norms whose weights lack 1, scaled embeddings. */
#include "families/shared.h"

static Status gemma_finish(const json_t *json, Config *config, Error *error) {
    /* "gelu" in Gemma's first files means the tanh approximation. */
    const char *name = json_text(json, "hidden_act");
    if (name && strcmp(name, "gelu") == 0) config->activation = ACTIVATION_GELU_TANH;
    (void)error;
    return STATUS_OK;
}

/* llama.cpp's converter has already added the 1 to the weights of Gemma's norms. */
static Status gguf_gemma_finish(const GgufModel *m, Config *c) {
    (void)m;
    c->activation = ACTIVATION_GELU_TANH;
    c->embedding_scale = (float)sqrt((double)c->dim);
    return STATUS_OK;
}

/* The largest models (46 and 62 layers) scale scores by dim / n_heads instead of the heads' width;
 * no key says so. */
static Status gguf_gemma2_finish(const GgufModel *m, Config *c) {
    uint32_t largest = strcmp(m->architecture, "gemma2") == 0 ? 46 : 62;
    if (c->n_layers == largest && c->n_heads > 0)
        c->attention_scale = (float)(1.0 / sqrt((double)(c->dim / c->n_heads)));
    c->norm_place = NORM_AROUND;
    return gguf_gemma_finish(m, c);
}

static Status gguf_gemma3_finish(const GgufModel *m, Config *c) {
    c->qk_norm = QK_NORM_HEAD;
    return gguf_gemma2_finish(m, c);
}

const FamilyHook families_gemma[] = {
    {"gemma", .finish = gemma_finish, .gguf_finish = gguf_gemma_finish},
    {"gemma2", .gguf_finish = gguf_gemma2_finish},
    {"gemma3", .gguf_finish = gguf_gemma3_finish},
    {0},
};
