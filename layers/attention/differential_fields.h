/* What core/config.c needs to know of differential attention (differential.h). */
#ifndef LAYERS_ATTENTION_DIFFERENTIAL_FIELDS_H
#define LAYERS_ATTENTION_DIFFERENTIAL_FIELDS_H

#include "layers/fields.h"

extern const LayerFields differential_fields;

#endif
