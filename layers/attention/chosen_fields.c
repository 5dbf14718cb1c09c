#include "layers/layer_fields.h"

enum { MOST_HEADS = 128 }; /* ATTENTION_QUERIES (core/attention.h) */

/* Checks what attention to chosen pools reads of the configuration. */
static Status validate(const Config *c, uint32_t l, Error *error) {
    const HeadShape h = config_heads(c, l);
    if (h.n_kv_heads == 0 || h.n_heads % h.n_kv_heads != 0 || h.n_heads / h.n_kv_heads > MOST_HEADS)
        return error_set(error, "layer %u: %u heads on %u key/value heads, with pools to choose", l,
                         h.n_heads, h.n_kv_heads);
    if ((uint64_t)h.n_heads * (h.head_dim > h.value_dim ? h.head_dim : h.value_dim) > 1 << 19)
        return error_set(error, "layer %u: %u heads of %u elements", l, h.n_heads, h.head_dim);
    if (c->position != POSITION_ROPE || c->rope_table[l] > 1 || h.rotary_dim == 0 ||
        h.rotary_dim % 2 != 0 || h.rotary_dim > h.head_dim || h.rotary_dim > c->indexer.head_dim)
        return error_set(error,
                         "layer %u: rotary_dim is %u, but must be even and at most head_dim (%u) "
                         "and index_dim (%u)",
                         l, h.rotary_dim, h.head_dim, c->indexer.head_dim);
    if (c->indexer.n_heads == 0 || c->indexer.pool == 0 || c->indexer.topk == 0 ||
        c->indexer.topk % c->indexer.pool != 0 ||
        (uint64_t)c->indexer.n_heads * c->indexer.head_dim > 1 << 20)
        return error_set(error,
                         "layer %u: index_heads %u of index_dim %u, and index_pool %u, which must "
                         "divide index_topk (%u)",
                         l, c->indexer.n_heads, c->indexer.head_dim, c->indexer.pool,
                         c->indexer.topk);
    if (c->window[l] > 0 || c->chunk[l] > 0 || c->kv_distance[l] > 0 || c->query_scaling != 0.0f ||
        c->value_scale != 1.0f || c->qkv_clip != 0.0f || c->qk_norm != QK_NORM_HEAD ||
        c->qk_norm_after_rope || c->value_norm || c->attention_softcap != 0.0f ||
        c->attention_scale_falls || c->gate_activation != ACTIVATION_SIGMOID)
        return error_set(
            error,
            "layer %u: pools to choose with windows, chunks, the keys of another layer, "
            "changed queries, values or scores, or other norms or gates of heads",
            l);
    return STATUS_OK;
}

static double chosen_work(const Config *c, uint32_t l) {
    const HeadShape h = config_heads(c, l);
    return c->dim * (((double)h.head_dim + h.value_dim) * ((double)h.n_heads + h.n_kv_heads) +
                     (double)h.n_heads * h.value_dim +
                     (double)c->indexer.head_dim * (c->indexer.n_heads + 1.0));
}

const LayerFields chosen_fields = {validate, chosen_work};
