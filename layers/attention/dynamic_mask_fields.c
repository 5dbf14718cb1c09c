#include "layers/layer_fields.h"

enum { MOST_HEADS = 128 }; /* ATTENTION_QUERIES (core/attention.h) */

/* clang-format off */
const FieldTable dynamic_mask_keys = FIELD_TABLE(
    KEY_UINT("mask_keep", mask_keep, 1 << 20));

/* clang-format on */

/* Checks that layer l has a shape that dynamic mask attention can compute, and refuses mechanisms
 * of plain attention that it lacks. */
static Status check(const Config *c, uint32_t l, Error *error) {
    const HeadShape h = config_heads(c, l);
    if (h.n_kv_heads == 0 || h.n_heads % h.n_kv_heads != 0 || h.n_heads / h.n_kv_heads > MOST_HEADS)
        return error_set(error, "layer %u: %u heads on %u key/value heads, with a dynamic mask", l,
                         h.n_heads, h.n_kv_heads);
    if (h.head_dim == 0 || h.value_dim != h.head_dim || (uint64_t)h.n_heads * h.head_dim > 1 << 19)
        return error_set(error, "layer %u: %u heads of %u elements, with values of %u", l,
                         h.n_heads, h.head_dim, h.value_dim);
    if (config_check_rotary(c, l, error) != STATUS_OK) return STATUS_FAILED;
    if (c->mask_keep == 0 || !(c->attention_scale > 0.0f))
        return error_set(error, "layer %u: a dynamic mask with mask_keep %u and attention_scale %g",
                         l, c->mask_keep, (double)c->attention_scale);
    if (c->chunk[l] > 0 || c->position == POSITION_ALIBI || c->kv_distance[l] > 0 ||
        c->query_scaling != 0.0f || c->value_scale != 1.0f || c->qkv_clip != 0.0f ||
        c->qk_norm != QK_NORM_HEAD || c->qk_norm_after_rope || c->value_norm ||
        c->attention_softcap != 0.0f || c->attention_scale_falls)
        return error_set(error,
                         "layer %u: a dynamic mask with chunks, ALiBi, the keys of another layer, "
                         "changed queries, values or scores, or other norms of heads",
                         l);
    return STATUS_OK;
}

static double work(const Config *c, uint32_t l) {
    const HeadShape h = config_heads(c, l);
    return 2.0 * c->dim * h.head_dim * ((double)h.n_heads + h.n_kv_heads) +
           (double)h.n_kv_heads * h.n_kv_heads * h.head_dim;
}

const LayerFields dynamic_mask_fields = {.validate = check, .work = work};
