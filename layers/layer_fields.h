/* What layer_config.c takes of the mechanisms whose fields need no more than tables: each in the
 * file of its name, attention/cca_fields.c and so on. */
#ifndef LAYERS_LAYER_FIELDS_H
#define LAYERS_LAYER_FIELDS_H

#include "layers/fields.h"

extern const LayerFields blocks_fields, cca_fields, chosen_fields, differential_fields,
    dynamic_mask_fields, head_mixture_fields, latent_fields, latent_moe_fields, mlstm_fields,
    rwkv_fields;

/* The keys of Config.mask_keep. */
extern const FieldTable dynamic_mask_keys;

/* The keys of Config.latent and Config.indexer, a table for what came together. */
extern const FieldTable latent_keys, latent_indexer_keys, latent_variant_keys,
    latent_pooled_indexer_keys, latent_local_keys;

extern const FieldTable mlstm_keys, rwkv_keys;

#endif
