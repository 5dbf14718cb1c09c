/* What RWKV's layers read of the configuration. */
#ifndef LAYERS_STATE_RWKV_FIELDS_H
#define LAYERS_STATE_RWKV_FIELDS_H

#include "layers/fields.h"

extern const LayerFields rwkv_fields;

extern const FieldTable rwkv_keys;

#endif
