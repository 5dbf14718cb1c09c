/* What config.c needs to know of a kind of layers; see layer_kind.h. */
#ifndef LAYERS_FIELDS_H
#define LAYERS_FIELDS_H

#include "config.h"

typedef struct LayerFields {
    /* Checks the fields that a layer of this kind reads; the Error names the field. */
    Status (*validate)(const Config *config, uint32_t layer, Error *error);
    /* Multiply-adds of the layer's matrix products for one row. */
    double (*work)(const Config *config, uint32_t layer);
} LayerFields;

#endif
