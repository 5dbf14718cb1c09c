#include "formats/gguf_latent.h"

#include <math.h>

Status gguf_latent_finish(const GgufModel *m, Config *c) {
    c->value_dim = c->n_heads ? c->dim / c->n_heads : 0;
    gguf_model_uint(m, "attention.kv_lora_rank", &c->latent_dim);
    gguf_model_uint(m, "attention.q_lora_rank", &c->latent_q_dim);
    gguf_model_uint(m, "attention.value_length", &c->value_dim);
    gguf_model_uint(m, "attention.key_length_mla", &c->head_dim);
    gguf_model_uint(m, "attention.value_length_mla", &c->value_dim);
    if (c->head_dim == 0 || c->value_dim == 0 || c->latent_dim == 0)
        return error_set(m->error,
                         "%s: latent attention with keys of %u, values of %u and a latent "
                         "of %u elements",
                         m->source->path, c->head_dim, c->value_dim, c->latent_dim);
    c->n_kv_heads = c->n_heads;
    c->latent_norm_eps = 1e-6f;
    c->attention_scale = (float)(1.0 / sqrt((double)c->head_dim));
    for (uint32_t i = 0; i < c->n_layers && i < CONFIG_MAX_LAYERS; i++)
        c->layer_kind[i] = LAYER_LATENT;
    return STATUS_OK;
}
