/* Gemma 1, 2 and 3, and VaultGemma: norms whose weights lack 1, scaled embeddings. */
#include "families/shared.h"

static Status gemma_finish(const json_t *json, Config *config, Error *error) {
    /* "gelu" in Gemma's first files means the tanh approximation. */
    const char *name = json_text(json, "hidden_act");
    if (name && strcmp(name, "gelu") == 0) config->activation = ACTIVATION_GELU_TANH;
    (void)error;
    return STATUS_OK;
}

/* The largest models (46 and 62 layers) scale scores by dim / n_heads instead of the heads' width;
 * no key says so. */
static Status gguf_gemma2_finish(const GgufModel *m, Config *c) {
    uint32_t largest = strcmp(m->architecture, "gemma2") == 0 ? 46 : 62;
    if (c->n_layers == largest && c->n_heads > 0)
        c->attention_scale = (float)(1.0 / sqrt((double)(c->dim / c->n_heads)));
    return STATUS_OK;
}

const FamilyHook families_gemma[] = {
    {"gemma", .finish = gemma_finish},
    {"gemma2", .gguf_finish = gguf_gemma2_finish},
    {0},
};
