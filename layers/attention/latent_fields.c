#include "layers/layer_fields.h"

/* clang-format off */
const FieldTable latent_keys = FIELD_TABLE(
    KEY_UINT("latent_dim", latent.kv_lora_rank, 1 << 12),
    KEY_UINT("latent_q_dim", latent.q_lora_rank, 1 << 16),
    KEY_AMOUNT("latent_norm_eps", latent.norm_eps),
    KEY_AMOUNT("latent_scale", latent.scale));

const FieldTable latent_indexer_keys = FIELD_TABLE(
    KEY_UINT("index_heads", indexer.n_heads, 1 << 10),
    KEY_UINT("index_dim", indexer.head_dim, 1 << 12),
    KEY_UINT("index_topk", indexer.topk, 1 << 16),
    KEY_UINT("index_block", indexer.block, 1 << 16),
    KEY_UINT("index_local", indexer.local_blocks, 1 << 16),
    KEY_BOOL("index_interleaved", indexer.interleaved),
    KEY_BOOL("index_rotates_end", indexer.rotates_end),
    KEY_AMOUNT("index_norm_eps", indexer.norm_eps));

const FieldTable latent_variant_keys = FIELD_TABLE(
    KEY_BOOL("latent_q_twice", latent.q_twice),
    KEY_BOOL("whole_unrotated", latent.nope_without_shared_key));

const FieldTable latent_pooled_indexer_keys = FIELD_TABLE(
    KEY_UINT("index_pool", indexer.pool, 1 << 12),
    KEY("indexer", indexer.layer, FIELD_PER_LAYER, .most = INDEXERS - 1));

const FieldTable latent_local_keys = FIELD_TABLE(
    KEY_UINT("local_latent_dim", latent.local_kv_lora_rank, 1 << 12),
    KEY_UINT("local_latent_q_dim", latent.local_q_lora_rank, 1 << 16),
    KEY_UINT("local_value_dim", latent.local_value_dim, 1 << 12),
    KEY_AMOUNT("local_latent_scale", latent.local_scale),
    KEY_FLOAT("local_attention_scale", latent.local_attention_scale));

/* clang-format on */

/* Checks what the layer's indexer reads. */
static Status validate_indexer(const Config *c, uint32_t l, Error *error) {
    if (c->indexer.layer[l] == INDEXER_NONE) return STATUS_OK;
    if (c->indexer.n_heads == 0 || c->indexer.topk == 0 || c->indexer.head_dim == 0 ||
        c->indexer.head_dim < config_heads(c, l).rotary_dim)
        return error_set(error,
                         "layer %u: an indexer of index_heads %u, index_dim %u and index_topk %u, "
                         "with rotary_dim %u",
                         l, c->indexer.n_heads, c->indexer.head_dim, c->indexer.topk,
                         config_heads(c, l).rotary_dim);
    if ((uint64_t)c->indexer.n_heads * c->indexer.head_dim > 1 << 20)
        return error_set(error, "layer %u: index_heads %u of index_dim %u are too many", l,
                         c->indexer.n_heads, c->indexer.head_dim);
    if (c->window[l] > 0) return error_set(error, "layer %u: an indexer with a window", l);
    if (c->indexer.pool > 0 &&
        (c->indexer.topk % c->indexer.pool != 0 || config_latent(c, l).q_lora_rank == 0 ||
         c->position != POSITION_NONE))
        return error_set(error,
                         "layer %u: index_pool %u must divide index_topk (%u), with latent_q_dim "
                         "and position 'none'",
                         l, c->indexer.pool, c->indexer.topk);
    bool predicts = c->stack == STACK_MTP && l >= c->n_layers - c->mtp.n_layers;
    if (c->indexer.layer[l] == INDEXER_SHARED &&
        (l == 0 || predicts || c->layer_kind[l - 1] != LAYER_LATENT ||
         c->indexer.layer[l - 1] == INDEXER_NONE))
        return error_set(error, "layer %u: the layer before it has no indexer to share", l);
    return STATUS_OK;
}

/* Checks what latent attention reads of the configuration. */
static Status validate(const Config *c, uint32_t l, Error *error) {
    const HeadShape h = config_heads(c, l);
    const LatentShape latent = config_latent(c, l);
    uint64_t key = (uint64_t)latent.kv_lora_rank + h.rotary_dim;
    uint64_t widest = key > h.head_dim ? key : h.head_dim;
    if (h.value_dim > widest) widest = h.value_dim;
    if (c->latent.q_twice && latent.q_lora_rank == 0)
        return error_set(error, "layer %u: latent_q_twice needs latent_q_dim", l);
    if (latent.kv_lora_rank == 0) return error_set(error, "layer %u: latent_dim is 0", l);
    if (h.rotary_dim % 2 != 0 || h.rotary_dim >= h.head_dim)
        return error_set(error,
                         "layer %u: rotary_dim is %u, but must be even and below head_dim (%u)", l,
                         h.rotary_dim, h.head_dim);
    if (c->position == POSITION_ROPE && c->rope_table[l] < 2 && h.rotary_dim == 0)
        return error_set(error, "layer %u: rotary_dim is 0", l);
    if (widest * h.n_heads > 1 << 20)
        return error_set(error, "layer %u: %u heads of %llu elements are too many", l, h.n_heads,
                         (unsigned long long)widest);
    if (c->chunk[l] > 0 || c->position == POSITION_ALIBI)
        return error_set(error, "layer %u: latent attention with %s", l,
                         c->chunk[l] > 0 ? "chunks" : "ALiBi");
    uint32_t distance = c->kv_distance[l];
    if (distance > 0 && (distance > l || c->layer_kind[l - distance] != LAYER_LATENT ||
                         c->kv_distance[l - distance] > 0 ||
                         config_latent(c, l - distance).kv_lora_rank != latent.kv_lora_rank ||
                         config_heads(c, l - distance).rotary_dim != h.rotary_dim))
        return error_set(error, "layer %u: kv_distance %u leads to no layer with such latents", l,
                         distance);
    return validate_indexer(c, l, error);
}

static double latent_work(const Config *c, uint32_t l) {
    const HeadShape h = config_heads(c, l);
    double heads = h.n_heads, q = heads * h.head_dim, rest = h.head_dim - h.rotary_dim;
    const LatentShape latent = config_latent(c, l);
    double queries = latent.q_lora_rank ? latent.q_lora_rank * (c->dim + q) : c->dim * q;
    if (c->latent.q_twice) queries += latent.q_lora_rank * (q + 2 * heads * h.value_dim);
    if (c->indexer.layer[l] == INDEXER_OWN)
        queries += (double)c->dim * (c->indexer.head_dim * (c->indexer.pool > 0 ? 2.0 : 1.0) +
                                     c->indexer.n_heads) +
                   (latent.q_lora_rank ? (double)latent.q_lora_rank : c->dim) * c->indexer.n_heads *
                       c->indexer.head_dim;
    if (c->kv_distance[l] == 0) queries += (double)c->dim * (latent.kv_lora_rank + h.rotary_dim);
    return queries + heads * latent.kv_lora_rank * (rest + h.value_dim) +
           (double)c->dim * heads * h.value_dim;
}

const LayerFields latent_fields = {validate, latent_work};
