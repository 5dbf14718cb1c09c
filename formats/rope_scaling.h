/* RoPE frequencies as float32 tables, in each of the scalings that config.json files ask for.
 *
 * The formulas are those of transformers (modeling_rope_utils.py), in its order of float32
 * operations; powers are rounded once from double. */
#ifndef FORMATS_ROPE_SCALING_H
#define FORMATS_ROPE_SCALING_H

#include <jansson.h>
#include <stdint.h>

#include "../status.h"

typedef struct RopeModel {
    double theta;              /* the base */
    size_t rotary_dim;         /* rotated elements of a head */
    uint64_t context;          /* max_position_embeddings */
    uint64_t original_context; /* the configuration's own key of that name; 0: none */
} RopeModel;

typedef struct RopeTable {
    float *freqs;           /* [rotary_dim / 2], owned */
    float *short_freqs;     /* LongRoPE: for contexts up to original_context; else NULL; owned */
    float attention_factor; /* multiplies sines and cosines */
    uint64_t original_context;
} RopeTable;

/* `scaling`: the object rope_scaling or rope_parameters; NULL or JSON null: plain. The Error
 * names a rope_type that is not known and the key that is missing or wrong. */
Status rope_scaling_table(RopeTable *table, const RopeModel *model, const json_t *scaling,
                          Error *error);
void rope_scaling_free(RopeTable *table);

#endif
