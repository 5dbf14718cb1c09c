/* Mistral 4: latent attention, experts in groups, queries that grow with the position. */
#include "families/shared.h"

/* llama.cpp's converter may write no key of how queries grow with the position. */
static Status gguf_mistral4_finish(const GgufModel *m, Config *c) {
    if (c->query_scaling == 0.0f) {
        c->query_scaling = 0.1f;
        c->query_scaling_floor = c->context;
        gguf_model_uint(m, "rope.scaling.original_context_length", &c->query_scaling_floor);
    }
    return gguf_deepseek2_finish(m, c);
}

const FamilyHook families_mistral4[] = {
    {"mistral4", .gguf_finish = gguf_mistral4_finish},
    {0},
};
