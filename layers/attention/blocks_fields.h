/* What core/config.c needs to know of attention to blocks (blocks.h). */
#ifndef LAYERS_ATTENTION_BLOCKS_FIELDS_H
#define LAYERS_ATTENTION_BLOCKS_FIELDS_H

#include "layers/fields.h"

extern const LayerFields blocks_fields;

#endif
