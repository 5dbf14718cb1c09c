/* What core/config.c needs to know of latent attention (latent.h). */
#ifndef LAYERS_ATTENTION_LATENT_FIELDS_H
#define LAYERS_ATTENTION_LATENT_FIELDS_H

#include "layers/fields.h"

extern const LayerFields latent_fields;

/* The keys of Config.latent and Config.indexer. */
enum { LATENT_KEYS = 21 };
extern const ConfigField latent_keys[LATENT_KEYS];

#endif
