#include "layers/attention/compressed_fields.h"

/* clang-format off */
const FieldTable compressed_keys = FIELD_TABLE(
    KEY_UINT("out_groups", compressed.out_groups, COMPRESSED_MAX_GROUPS),
    KEY_UINT("out_rank", compressed.out_rank, 1 << 16),
    KEY("pool_rate", compressed.pool_rate, FIELD_PER_LAYER, .most = 1 << 12));

/* clang-format on */

static Status validate_indexer(const Config *c, uint32_t l, Error *error) {
    if (c->indexer.layer[l] == INDEXER_NONE) return STATUS_OK;
    if (c->indexer.layer[l] != INDEXER_OWN || c->compressed.pool_rate[l] == 0 ||
        c->indexer.n_heads == 0 || c->indexer.topk == 0 || c->indexer.pool > 0 ||
        c->indexer.head_dim < config_heads(c, l).rotary_dim)
        return error_set(error,
                         "layer %u: an indexer of pools with pool_rate %u, index_heads %u, "
                         "index_dim %u, index_topk %u and rotary_dim %u",
                         l, c->compressed.pool_rate[l], c->indexer.n_heads, c->indexer.head_dim,
                         c->indexer.topk, config_heads(c, l).rotary_dim);
    if ((uint64_t)c->indexer.n_heads * c->indexer.head_dim > 1 << 20)
        return error_set(error, "layer %u: index_heads %u of index_dim %u are too many", l,
                         c->indexer.n_heads, c->indexer.head_dim);
    return STATUS_OK;
}

/* Checks what attention to compressed positions reads of the configuration. */
static Status validate(const Config *c, uint32_t l, Error *error) {
    const HeadShape h = config_heads(c, l);
    uint64_t width = (uint64_t)h.n_heads * h.head_dim;
    if (h.n_kv_heads != 1 || h.value_dim != h.head_dim || width > 1 << 20)
        return error_set(error, "layer %u: %u heads of %u elements, with %u keys and values of %u",
                         l, h.n_heads, h.head_dim, h.n_kv_heads, h.value_dim);
    if (c->position != POSITION_ROPE || c->rope_table[l] > 1 || h.rotary_dim == 0 ||
        h.rotary_dim % 2 != 0 || h.rotary_dim > h.head_dim)
        return error_set(
            error,
            "layer %u: compressed attention rotates, and rotary_dim is %u, but must be "
            "even and at most head_dim (%u)",
            l, h.rotary_dim, h.head_dim);
    if (c->latent.q_lora_rank == 0 || c->window[l] == 0)
        return error_set(error, "layer %u: latent_q_dim is %u, window %u: neither may be 0", l,
                         c->latent.q_lora_rank, c->window[l]);
    if (c->compressed.out_groups == 0 || c->compressed.out_rank == 0 ||
        width % c->compressed.out_groups != 0 ||
        (uint64_t)c->compressed.out_groups * c->compressed.out_rank > 1 << 20)
        return error_set(error, "layer %u: out_groups %u of out_rank %u, with %u heads of %u", l,
                         c->compressed.out_groups, c->compressed.out_rank, h.n_heads, h.head_dim);
    if (c->chunk[l] > 0 || c->kv_distance[l] > 0 || c->query_scaling != 0.0f ||
        c->attention_softcap != 0.0f || c->attention_scale_falls)
        return error_set(
            error,
            "layer %u: compressed attention with chunks, the keys of another layer, or "
            "changed queries or scores",
            l);
    return validate_indexer(c, l, error);
}

static double work(const Config *c, uint32_t l) {
    const HeadShape h = config_heads(c, l);
    double dim = c->dim, heads = (double)h.n_heads * h.head_dim, latent = c->latent.q_lora_rank;
    bool chooses = c->indexer.layer[l] == INDEXER_OWN;
    double work = latent * (dim + heads) + dim * h.head_dim +
                  c->compressed.out_rank * (heads + c->compressed.out_groups * dim);
    if (c->compressed.pool_rate[l] > 0) work += dim * h.head_dim * (chooses ? 4.0 : 2.0);
    if (!chooses) return work;
    return work + dim * (4.0 * c->indexer.head_dim + c->indexer.n_heads) +
           latent * c->indexer.n_heads * c->indexer.head_dim;
}

const LayerFields compressed_fields = {validate, work};
