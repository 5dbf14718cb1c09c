/* What core/config.c needs to know of compressed attention (compressed.h). */
#ifndef LAYERS_ATTENTION_COMPRESSED_FIELDS_H
#define LAYERS_ATTENTION_COMPRESSED_FIELDS_H

#include "layers/fields.h"

enum { COMPRESSED_MAX_GROUPS = 128 };

extern const LayerFields compressed_fields;

/* The keys of Config.compressed. */
extern const FieldTable compressed_keys;

#endif
