/* What core/config.c needs to know of attention with a bias of distances (relative.h). */
#ifndef LAYERS_ATTENTION_RELATIVE_FIELDS_H
#define LAYERS_ATTENTION_RELATIVE_FIELDS_H

#include "layers/fields.h"

extern const LayerFields relative_fields;

/* The keys of Config.relative. */
extern const FieldTable relative_keys;

/* Positions back that have a bias in the layer. */
uint32_t relative_extent(const Config *config, uint32_t layer);

#endif
