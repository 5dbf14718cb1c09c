#include "layers/layer_fields.h"

enum { MOST_HEADS = 128 }; /* ATTENTION_QUERIES (core/attention.h) */

/* Checks what attention to chosen blocks reads of the configuration. */
static Status validate(const Config *c, uint32_t l, Error *error) {
    const HeadShape h = config_heads(c, l);
    if (h.n_kv_heads == 0 || h.n_heads % h.n_kv_heads != 0 || h.n_heads / h.n_kv_heads > MOST_HEADS)
        return error_set(error, "layer %u: %u heads on %u key/value heads, with an index of blocks",
                         l, h.n_heads, h.n_kv_heads);
    if (h.head_dim == 0 ||
        (uint64_t)h.n_heads * (h.head_dim > h.value_dim ? h.head_dim : h.value_dim) > 1 << 19)
        return error_set(error, "layer %u: %u heads of %u elements", l, h.n_heads, h.head_dim);
    if (config_check_rotary(c, l, error) != STATUS_OK) return STATUS_FAILED;
    if (c->indexer.n_heads == 0 || c->indexer.topk == 0 || c->indexer.block == 0 ||
        c->indexer.head_dim == 0)
        return error_set(error,
                         "layer %u: an index of blocks with index_heads %u, index_dim %u, "
                         "index_block %u and index_topk %u",
                         l, c->indexer.n_heads, c->indexer.head_dim, c->indexer.block,
                         c->indexer.topk);
    if (h.rotary_dim > c->indexer.head_dim)
        return error_set(error, "layer %u: rotary_dim (%u) is larger than index_dim (%u)", l,
                         h.rotary_dim, c->indexer.head_dim);
    if (c->indexer.head_dim > h.head_dim)
        return error_set(error, "layer %u: index_dim (%u) is larger than head_dim (%u)", l,
                         c->indexer.head_dim, h.head_dim);
    if (c->indexer.local_blocks > c->indexer.topk)
        return error_set(error, "layer %u: index_local (%u) is larger than index_topk (%u)", l,
                         c->indexer.local_blocks, c->indexer.topk);
    if (h.n_heads % c->indexer.n_heads != 0)
        return error_set(error, "layer %u: index_heads (%u) does not divide n_heads (%u)", l,
                         c->indexer.n_heads, h.n_heads);
    if (c->window[l] > 0 || c->chunk[l] > 0 || c->position == POSITION_ALIBI ||
        c->kv_distance[l] > 0 || c->query_scaling != 0.0f || c->value_scale != 1.0f ||
        c->qkv_clip != 0.0f || c->qk_norm != QK_NORM_HEAD || c->qk_norm_after_rope ||
        c->value_norm || c->attention_softcap != 0.0f || c->attention_scale_falls)
        return error_set(
            error,
            "layer %u: an index of blocks with windows, chunks, ALiBi, the keys of "
            "another layer, changed queries, values or scores, or other norms of heads",
            l);
    return STATUS_OK;
}

static double blocks_work(const Config *c, uint32_t l) {
    const HeadShape h = config_heads(c, l);
    return c->dim * (((double)h.head_dim + h.value_dim) * ((double)h.n_heads + h.n_kv_heads) +
                     (double)c->indexer.head_dim * (c->indexer.n_heads + 1.0));
}

const LayerFields blocks_fields = {validate, blocks_work};
