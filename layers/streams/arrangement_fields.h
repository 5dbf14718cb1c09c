/* What core/config_fields.c needs to know of arrangements; their checks and their multiply-adds are
 * in core/layer_kind.h, which the core has as well. */
#ifndef LAYERS_STREAMS_ARRANGEMENT_FIELDS_H
#define LAYERS_STREAMS_ARRANGEMENT_FIELDS_H

#include "layers/fields.h"

/* The keys of Config.streams, Config.per_layer and Config.mtp. */
enum { ARRANGEMENT_KEYS = 17 };
extern const ConfigField arrangement_keys[ARRANGEMENT_KEYS];

#endif
