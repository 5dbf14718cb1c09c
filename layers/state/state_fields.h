/* What the layers that keep a state read of the configuration, and the sizes that follow. */
#ifndef LAYERS_STATE_STATE_FIELDS_H
#define LAYERS_STATE_STATE_FIELDS_H

#include "layers/fields.h"

/* Widths of a layer's projections. */
typedef struct StateSizes {
    size_t keys;     /* state_key_heads * state_key_dim: q, k (Mamba 2: C, B) */
    size_t values;   /* state_heads * state_value_dim: v, z (Mamba 2: x, z) */
    size_t channels; /* of the convolution; Mamba convolves `values` alone */
} StateSizes;
StateSizes state_sizes(const Config *config);

/* The epsilon of the norms inside of a layer with a state. */
float state_norm_eps(const Config *config);

extern const LayerFields delta_fields, convolution_fields, mamba_fields, mamba2_fields;
extern const LayerFields lightning_fields, no_fields, parallel_mamba_fields, shared_block_fields;
extern const LayerFields shared_mamba_fields;

enum { STATE_MOST_MAMBA_HEADS = 32 }; /* parts of Mamba's channels that are selected apart */
extern const LayerFields rg_lru_fields;
enum { RG_LRU_MAX_BLOCKS = 128 }; /* of a gate's matrix */

/* The keys of Config.state, and of blocks that layers share, a table for what came together. */
extern const FieldTable state_keys, state_shared_block_keys, state_delta_keys, state_gate_keys,
    state_mix_keys;

#endif
