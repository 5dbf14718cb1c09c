#include "layers/layer_fields.h"

/* Checks what compressed convolutional attention reads of the configuration. */
static Status validate(const Config *c, uint32_t l, Error *error) {
    const HeadShape h = config_heads(c, l);
    if (h.n_heads % h.n_kv_heads != 0 || h.head_dim == 0 || h.value_dim != h.head_dim ||
        (uint64_t)h.n_kv_heads * h.value_dim % 2 != 0 ||
        ((uint64_t)h.n_heads + h.n_kv_heads) * h.head_dim > 1 << 18)
        return error_set(error,
                         "layer %u: %u heads of %u elements on %u of keys and values of %u, with "
                         "convolutions of queries and keys",
                         l, h.n_heads, h.head_dim, h.n_kv_heads, h.value_dim);
    if (c->position != POSITION_ROPE || c->rope_table[l] > 1 || h.rotary_dim == 0 ||
        h.rotary_dim % 2 != 0 || h.rotary_dim > h.head_dim)
        return error_set(error,
                         "layer %u: rotary_dim is %u, but must be even and at most head_dim (%u)",
                         l, h.rotary_dim, h.head_dim);
    if (c->state.conv_kernel < 1 || c->state.mix_kernel < 1)
        return error_set(error, "layer %u: state_kernel is %u, state_mix_kernel %u", l,
                         c->state.conv_kernel, c->state.mix_kernel);
    if (c->chunk[l] > 0 || c->kv_distance[l] > 0 || c->query_scaling != 0.0f ||
        c->value_scale != 1.0f || c->qkv_clip != 0.0f || c->qk_norm != QK_NORM_NONE ||
        c->value_norm || c->attention_softcap != 0.0f || c->attention_scale_falls)
        return error_set(error,
                         "layer %u: convolutions of queries and keys with chunks, the keys of "
                         "another layer, changed queries, values or scores, or norms of heads",
                         l);
    return STATUS_OK;
}

static double work(const Config *c, uint32_t l) {
    const HeadShape h = config_heads(c, l);
    double channels = ((double)h.n_heads + h.n_kv_heads) * h.head_dim;
    return c->dim * (2.0 * channels) + channels * h.head_dim * c->state.mix_kernel;
}

const LayerFields cca_fields = {validate, work};
