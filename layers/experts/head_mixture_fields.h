/* What a mixture of attention heads reads of the configuration. */
#ifndef LAYERS_EXPERTS_HEAD_MIXTURE_FIELDS_H
#define LAYERS_EXPERTS_HEAD_MIXTURE_FIELDS_H

#include "layers/fields.h"

extern const LayerFields head_mixture_fields;

#endif
