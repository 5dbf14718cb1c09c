/* What core/config.c needs to know of attention to chosen pools (chosen.h). */
#ifndef LAYERS_ATTENTION_CHOSEN_FIELDS_H
#define LAYERS_ATTENTION_CHOSEN_FIELDS_H

#include "layers/fields.h"

extern const LayerFields chosen_fields;

#endif
