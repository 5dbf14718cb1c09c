/* What matrix LSTMs read of the configuration. */
#ifndef LAYERS_STATE_MLSTM_FIELDS_H
#define LAYERS_STATE_MLSTM_FIELDS_H

#include "layers/fields.h"

extern const LayerFields mlstm_fields;

extern const FieldTable mlstm_keys;

#endif
