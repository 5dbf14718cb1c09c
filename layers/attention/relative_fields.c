#include "layers/attention/relative_fields.h"

enum { MOST_EXTENT = 1 << 20 };

/* clang-format off */
const FieldTable relative_keys = FIELD_TABLE(
    KEY_UINT("relative_dim", relative.dim, 1 << 10),
    KEY_UINT("relative_extent", relative.extent, MOST_EXTENT),
    KEY_AMOUNT("head_clip", relative.head_clip),
    KEY_AMOUNT("relative_clip", relative.clip));

/* clang-format on */

uint32_t relative_extent(const Config *c, uint32_t l) {
    return c->window[l] > 0 ? c->window[l] : c->relative.extent;
}

/* Checks what attention with a bias of distances reads of the configuration. */
static Status validate(const Config *c, uint32_t l, Error *error) {
    const HeadShape h = config_heads(c, l);
    uint32_t extent = relative_extent(c, l);
    if (h.n_kv_heads == 0 || h.n_heads % h.n_kv_heads != 0 || h.head_dim == 0 ||
        h.value_dim != h.head_dim || (uint64_t)h.n_heads * h.head_dim > 1 << 20)
        return error_set(error, "layer %u: %u heads of %u elements on %u of keys and values of %u",
                         l, h.n_heads, h.head_dim, h.n_kv_heads, h.value_dim);
    if (c->relative.dim == 0 || extent == 0 || extent > MOST_EXTENT)
        return error_set(error, "layer %u: relative_dim %u for distances below %u", l,
                         c->relative.dim, extent);
    if (c->state.conv_kernel < 1)
        return error_set(error, "layer %u: state_kernel is %u", l, c->state.conv_kernel);
    if (c->stack != STACK_CONVOLVED && c->stack != STACK_BLOCK_SUMS)
        return error_set(error,
                         "layer %u: a bias of distances needs stack 'convolved' or "
                         "'block_sums'",
                         l);
    if (c->position != POSITION_NONE || c->chunk[l] > 0 || c->kv_distance[l] > 0 ||
        c->query_power || c->query_scaling_unrotated || c->value_scale != 1.0f ||
        c->qkv_clip != 0.0f || c->qk_norm != QK_NORM_NONE || c->attention_softcap != 0.0f ||
        c->attention_scale_falls)
        return error_set(error,
                         "layer %u: a bias of distances with positions, chunks, the keys of "
                         "another layer, changed values or scores, or other norms of heads",
                         l);
    return STATUS_OK;
}

static double work(const Config *c, uint32_t l) {
    const HeadShape h = config_heads(c, l);
    return c->dim * ((double)h.head_dim * 2.0 * ((double)h.n_heads + h.n_kv_heads) +
                     (double)c->relative.dim * h.n_heads);
}

const LayerFields relative_fields = {validate, work};
