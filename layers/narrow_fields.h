/* The configuration of mixtures of experts behind a narrower vector. */
#ifndef LAYERS_NARROW_FIELDS_H
#define LAYERS_NARROW_FIELDS_H

#include "layers/fields.h"

extern const LayerFields narrow_fields;

#endif
