/* MPT: ALiBi, no biases. */
#include "families/shared.h"

static Status gguf_mpt_finish(const GgufModel *m, Config *c) {
    double bias = 0.0;
    gguf_model_float(m, "attention.max_alibi_bias", &bias);
    if (!(bias > 0.0))
        return error_set(m->error, "%s: an MPT without ALiBi is not known to this program",
                         m->source->path);
    c->position = POSITION_ALIBI;
    c->alibi_max_bias = (float)bias;
    return STATUS_OK;
}

const FamilyHook families_mpt[] = {
    {"mpt", .gguf_finish = gguf_mpt_finish},
    {0},
};
