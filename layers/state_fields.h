/* What the layers that keep a state read of the configuration, and the sizes that follow. */
#ifndef LAYERS_STATE_FIELDS_H
#define LAYERS_STATE_FIELDS_H

#include "layers/fields.h"

/* Widths of a layer's projections. */
typedef struct StateSizes {
    size_t keys;     /* state_key_heads * state_key_dim: q, k (Mamba 2: C, B) */
    size_t values;   /* state_heads * state_value_dim: v, z (Mamba 2: x, z) */
    size_t channels; /* of the convolution */
} StateSizes;
StateSizes state_sizes(const Config *config);

extern const LayerFields delta_fields, convolution_fields, mamba2_fields, no_fields,
    lightning_fields;

#endif
