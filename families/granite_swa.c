/* Granite with windows, and its mixtures: granite.family and granitemoe.family have those without.
 */
#include "families/shared.h"

/* attention.rope_pattern says which layers rotate. */
static Status gguf_granite_swa_finish(const GgufModel *m, Config *c) {
    const GgufValue *pattern = gguf_model_find(m, "attention.rope_pattern", GGUF_AS_BOOL);
    double rotates;
    if (pattern && (!pattern->is_array || pattern->count < c->n_layers))
        return error_set(m->error, "%s: attention.rope_pattern is not a list of %u layers",
                         m->source->path, c->n_layers);
    for (uint32_t i = 0; pattern && i < c->n_layers && i < CONFIG_MAX_LAYERS; i++)
        c->rope_table[i] = gguf_element(pattern, i, &rotates) && rotates == 0.0 ? 2 : 0;
    return STATUS_OK;
}

const FamilyHook families_granite_swa[] = {
    {"granite_swa", .gguf_finish = gguf_granite_swa_finish},
    {0},
};
