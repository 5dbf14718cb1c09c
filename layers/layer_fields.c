/* What the kinds of layers read of the configuration: their tables of fields in order, their
 * checks, and the size of their matrix products. It stands apart from layer_kinds.c because
 * core/config.c calls it, and the kinds' own files need modules that need core/config.c. */
#include "layers/fields.h"

#include "core/layer_kind.h"
#include "layers/streams/arrangement_fields.h"
#include "layers/attention/blocks_fields.h"
#include "layers/attention/cca_fields.h"
#include "layers/attention/chosen_fields.h"
#include "layers/attention/compressed_fields.h"
#include "layers/attention/differential_fields.h"
#include "layers/attention/dynamic_mask_fields.h"
#include "layers/experts/head_mixture_fields.h"
#include "layers/attention/latent_fields.h"
#include "layers/experts/latent_moe_fields.h"
#include "layers/experts/mixture_fields.h"
#include "layers/state/mlstm_fields.h"
#include "layers/streams/ngram_fields.h"
#include "layers/attention/relative_fields.h"
#include "layers/state/rwkv_fields.h"
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
static const ConfigField plain_keys[] = {
    KEY_BOOL("query_power", query_power),
    KEY_BOOL("limit_first", limit_first),
    KEY_BOOL("head_output_norm", head_output_norm),
};

/* The order in which model.bin holds the keys and --info prints them: rows of the mechanisms'
 * tables, which grew in turns. */
static const struct {
    const ConfigField *rows;
    size_t n;
} order[] = {
    {mixture_keys, 15},         /* n_experts_used to shared_scale */
    {latent_keys, 14},          /* latent_dim to whole_unrotated */
    {plain_keys, 1},            /* query_power */
    {mixture_keys + 15, 1},     /* swiglu_limit */
    {plain_keys + 1, 1},        /* limit_first */
    {arrangement_keys, 4},      /* residual_by_depth to hyper_rounds */
    {latent_keys + 14, 2},      /* index_pool to indexer */
    {state_keys, 8},            /* state_heads to adapter_rank */
    {arrangement_keys + 4, 6},  /* per_layer_dim to laurel_rank */
    {mixture_keys + 16, 3},     /* router_group_pairs to router_ranks_logits */
    {state_keys + 8, 6},        /* state_tiled to state_decay_most */
    {arrangement_keys + 10, 1}, /* mtp_layers */
    {compressed_keys, COMPRESSED_KEYS},
    {state_keys + 14, 1}, /* state_sigmoid_gate */
    {ngram_keys, NGRAM_KEYS},
    {mixture_keys + 19, 5},     /* zero_experts_skip to router_dim */
    {state_keys + 15, 1},       /* state_mix_kernel */
    {arrangement_keys + 11, 1}, /* block_layers */
    {relative_keys, RELATIVE_KEYS},
    {rwkv_keys, RWKV_KEYS},
    {mlstm_keys, MLSTM_KEYS},
    {plain_keys + 2, 1},    /* head_output_norm */
    {mixture_keys + 24, 1}, /* router_logit_scale */
    {latent_keys + 16, 5},  /* local_latent_dim to local_attention_scale */
    {dynamic_mask_keys, DYNAMIC_MASK_KEYS},
    {arrangement_keys + 12, 5}, /* product_keys to loop_layers */
};

const ConfigField *layer_kind_field(size_t i) {
    for (size_t k = 0; k < sizeof order / sizeof *order; i -= order[k++].n)
        if (i < order[k].n) return &order[k].rows[i];
    return NULL;
}

Status layer_kind_validate(const Config *c, uint32_t layer, Error *error) {
    const LayerFields *kind = kinds[c->layer_kind[layer]];
    if (!kind)
        return error_set(error, "layer %u: layer_kind %u is unknown", layer, c->layer_kind[layer]);
    return kind->validate(c, layer, error);
}

double layer_kind_work(const Config *c, uint32_t layer) {
    const LayerFields *kind = kinds[c->layer_kind[layer]];
    return kind ? kind->work(c, layer) : 0;
}
