/* What config.c needs to know of latent attention (latent.h). */
#ifndef LAYERS_LATENT_FIELDS_H
#define LAYERS_LATENT_FIELDS_H

#include "layers/fields.h"

extern const LayerFields latent_fields;

#endif
