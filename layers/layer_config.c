/* What the kinds of layers read of the configuration: their tables of fields in order, their
 * checks, and the size of their matrix products. core/layer_kind.h says
 * why it stands apart from layer_kinds.c. */
#include "layers/fields.h"

#include "core/layer_kind.h"
#include "layers/arrangements/arrangement_fields.h"
#include "layers/attention/compressed_fields.h"
#include "layers/experts/mixture_fields.h"
#include "layers/arrangements/ngram_fields.h"
#include "layers/layer_fields.h"
#include "layers/attention/relative_fields.h"
#include "layers/state/state_fields.h"

/* One row for each kind, in the order of LayerKindNumber. */
static const LayerFields *const kinds[LAYER_KINDS] = {
    [LAYER_LATENT] = &latent_fields,
    [LAYER_DELTA] = &delta_fields,
    [LAYER_CONVOLUTION] = &convolution_fields,
    [LAYER_MAMBA2] = &mamba2_fields,
    [LAYER_MAMBA] = &mamba_fields,
    [LAYER_NONE] = &no_fields,
    [LAYER_DIFFERENCE] = &differential_fields,
    [LAYER_LIGHTNING] = &lightning_fields,
    [LAYER_PARALLEL_MAMBA] = &parallel_mamba_fields,
    [LAYER_SHARED] = &shared_block_fields,
    [LAYER_LATENT_MOE] = &latent_moe_fields,
    [LAYER_BLOCKS] = &blocks_fields,
    [LAYER_COMPRESSED] = &compressed_fields,
    [LAYER_CHOSEN] = &chosen_fields,
    [LAYER_CCA] = &cca_fields,
    [LAYER_RELATIVE] = &relative_fields,
    [LAYER_HEAD_MIXTURE] = &head_mixture_fields,
    [LAYER_SHARED_MAMBA] = &shared_mamba_fields,
    [LAYER_RG_LRU] = &rg_lru_fields,
    [LAYER_RWKV] = &rwkv_fields,
    [LAYER_MLSTM] = &mlstm_fields,
    [LAYER_DYNAMIC_MASK] = &dynamic_mask_fields,
};

/* Fields that plain layers read as well. */
/* clang-format off */
static const FieldTable query_power_keys = FIELD_TABLE(
    KEY_BOOL("query_power", query_power));
static const FieldTable limit_first_keys = FIELD_TABLE(
    KEY_BOOL("limit_first", limit_first));
static const FieldTable head_output_norm_keys = FIELD_TABLE(
    KEY_BOOL("head_output_norm", head_output_norm));

/* The order in which model.bin holds the keys and --info prints them. A new table comes last, so
 * that files keep their bytes. */
static const FieldTable *const order[] = {
    &mixture_keys,
    &latent_keys,
    &latent_indexer_keys,
    &latent_variant_keys,
    &query_power_keys,
    &mixture_limit_keys,
    &limit_first_keys,
    &arrangement_hyper_keys,
    &latent_pooled_indexer_keys,
    &state_keys,
    &state_shared_block_keys,
    &arrangement_altup_keys,
    &mixture_group_keys,
    &state_delta_keys,
    &arrangement_mtp_keys,
    &compressed_keys,
    &state_gate_keys,
    &ngram_keys,
    &mixture_always_keys,
    &mixture_softcap_keys,
    &mixture_router_dim_keys,
    &state_mix_keys,
    &arrangement_block_keys,
    &relative_keys,
    &rwkv_keys,
    &mlstm_keys,
    &head_output_norm_keys,
    &mixture_logit_scale_keys,
    &latent_local_keys,
    &dynamic_mask_keys,
    &arrangement_product_keys,
    &arrangement_loop_keys,
};
/* clang-format on */

static const ConfigField *layer_field(size_t i) {
    for (size_t k = 0; k < sizeof order / sizeof *order; i -= order[k++]->n)
        if (i < order[k]->n) return &order[k]->rows[i];
    return NULL;
}

static Status layer_validate(const Config *c, uint32_t layer, Error *error) {
    const LayerFields *kind = kinds[c->layer_kind[layer]];
    if (!kind)
        return error_set(error, "layer %u: layer_kind %u is unknown", layer, c->layer_kind[layer]);
    return kind->validate(c, layer, error);
}

static double layer_work(const Config *c, uint32_t layer) {
    const LayerFields *kind = kinds[c->layer_kind[layer]];
    return kind ? kind->work(c, layer) : 0;
}

const LayerConfig layer_config = {
    .field = layer_field,
    .validate = layer_validate,
    .validate_mixture = mixture_validate,
    .validate_arrangement = arrangement_validate,
    .work = layer_work,
    .mixture_work = mixture_work,
    .arrangement_work = arrangement_work,
};
