/* Frequencies of rotary positions, as transformers' modeling_rope_utils.py computes them: in
 * float32, step by step. They are stored in the model file. */
#ifndef FORMATS_ROPE_H
#define FORMATS_ROPE_H

#include <jansson.h>

#include "formats/source.h"

typedef enum RopeScaling {
    ROPE_DEFAULT,
    ROPE_LINEAR,   /* all frequencies divided by the factor */
    ROPE_LLAMA3,   /* low ones divided, high ones kept, a ramp between */
    ROPE_YARN,     /* a ramp over dimensions, and an attention factor */
    ROPE_DYNAMIC,  /* the base grows with a context beyond the original one */
    ROPE_LONGROPE, /* a factor for each frequency, and an attention factor */
    ROPE_SCALINGS
} RopeScaling;

typedef struct Rope {
    RopeScaling scaling;
    double theta;
    size_t dim; /* rotated elements of a head */
    double factor;
    double original_context;                  /* that the model was trained with */
    double low_freq_factor, high_freq_factor; /* llama3 */
    double beta_fast, beta_slow;              /* yarn */
    double mscale, mscale_all_dim;            /* yarn; 0: not given */
    bool truncate;                            /* yarn: the ramp's ends at whole dimensions */
    double attention_factor;                  /* 0: by the scaling's own formula */
    float *factors;                           /* longrope: [dim / 2], owned */
    float *short_factors;                     /* for contexts up to the original one, owned */
} Rope;

Rope rope_default(double theta, size_t dim);

void rope_free(Rope *rope);

/* freqs[dim / 2], malloc'ed (NULL: no memory), and what multiplies sines and cosines. */
float *rope_frequencies(const Rope *rope, float *attention_factor);

/* Adds the tensor `name` (LongRoPE: and `name`.short) and sets config's attention factor, theta
 * and original context. */
Status rope_add(Source *source, const char *name, const Rope *rope, Error *error);

/* The parameters in config.json: rope_theta (absent: config's) and rope_scaling (transformers 4)
 * or rope_parameters (5), where `kind` chooses among those of several kinds of layers.
 * rope->dim comes from config->rotary_dim. Scalings that are not known are refused by name.
 * rope_free in any case. */
Status rope_from_json(Rope *rope, const json_t *json, const char *kind, const Config *config,
                      Error *error);

#endif
