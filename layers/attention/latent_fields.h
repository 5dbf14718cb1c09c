/* What core/config.c needs to know of latent attention (latent.h). */
#ifndef LAYERS_ATTENTION_LATENT_FIELDS_H
#define LAYERS_ATTENTION_LATENT_FIELDS_H

#include "layers/fields.h"

extern const LayerFields latent_fields;

/* The keys of Config.latent and Config.indexer, a table for what came together. */
extern const FieldTable latent_keys, latent_indexer_keys, latent_variant_keys,
    latent_pooled_indexer_keys, latent_local_keys;

#endif
