/* What core/config.c needs to know of compressed convolutional attention (cca.h). */
#ifndef LAYERS_ATTENTION_CCA_FIELDS_H
#define LAYERS_ATTENTION_CCA_FIELDS_H

#include "layers/fields.h"

extern const LayerFields cca_fields;

#endif
