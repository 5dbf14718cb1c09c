/* What matrix LSTMs read of the configuration. */
#ifndef LAYERS_STATE_MLSTM_FIELDS_H
#define LAYERS_STATE_MLSTM_FIELDS_H

#include "layers/fields.h"

extern const LayerFields mlstm_fields;

enum { MLSTM_KEYS = 2 };
extern const ConfigField mlstm_keys[MLSTM_KEYS];

#endif
