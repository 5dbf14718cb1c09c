/* Baichuan 7B and 13B, in GGUF files alone: a llama, the larger one with ALiBi. */
#include "families/shared.h"

/* Baichuan 13B, with 40 layers, has ALiBi; 7B has RoPE. */
static Status gguf_baichuan_finish(const GgufModel *m, Config *c) {
    (void)m;
    if (c->n_layers == 40) c->position = POSITION_ALIBI;
    return STATUS_OK;
}

const FamilyHook families_baichuan[] = {
    {"baichuan", .gguf_finish = gguf_baichuan_finish},
    {0},
};
