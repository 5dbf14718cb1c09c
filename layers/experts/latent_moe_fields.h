/* The configuration of mixtures of experts on a narrower latent vector (LatentMoE). */
#ifndef LAYERS_EXPERTS_LATENT_MOE_FIELDS_H
#define LAYERS_EXPERTS_LATENT_MOE_FIELDS_H

#include "layers/fields.h"

extern const LayerFields latent_moe_fields;

#endif
