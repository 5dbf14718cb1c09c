/* What core/config.c needs to know of dynamic mask attention (dynamic_mask.h). */
#ifndef LAYERS_ATTENTION_DYNAMIC_MASK_FIELDS_H
#define LAYERS_ATTENTION_DYNAMIC_MASK_FIELDS_H

#include "layers/fields.h"

extern const LayerFields dynamic_mask_fields;

/* The key of Config.mask_keep. */
extern const FieldTable dynamic_mask_keys;

#endif
