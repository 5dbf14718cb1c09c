/* RoPE frequencies, computed as transformers' modeling_rope_utils.py does, step by step in float32.
 * The model file stores them. */
#ifndef FORMATS_ROPE_H
#define FORMATS_ROPE_H

#include <jansson.h>

#include "formats/source.h"

typedef enum RopeScaling {
    ROPE_DEFAULT,
    ROPE_LINEAR,   /* all frequencies divided by the factor */
    ROPE_LLAMA3,   /* low frequencies divided, high ones kept, a ramp between */
    ROPE_YARN,     /* a ramp over dimensions, and an attention factor */
    ROPE_DYNAMIC,  /* the base grows when the context exceeds the original one */
    ROPE_LONGROPE, /* a factor for each frequency, and an attention factor */
    ROPE_SCALINGS
} RopeScaling;

typedef struct Rope {
    RopeScaling scaling;
    double theta;
    size_t dim; /* rotated elements of a head */
    double factor;
    double original_context;                  /* the context that the model was trained with */
    double low_freq_factor, high_freq_factor; /* llama3 */
    double beta_fast, beta_slow;              /* yarn */
    double mscale, mscale_all_dim;            /* yarn; 0: not given */
    bool truncate;           /* yarn: the ramp's ends are rounded to whole numbers */
    double attention_factor; /* 0: the scaling's own formula gives it */
    float *factors;          /* longrope: [dim / 2], owned */
    float *short_factors;    /* for contexts up to the original one, owned */
} Rope;

/* RoPE without scaling. */
Rope rope_default(double theta, size_t dim);

void rope_free(Rope *rope);

/* base^(-2i / dim) for i < dim / 2, in float32 as transformers computes it: the power, then its
 * reciprocal. malloc'ed; NULL: no memory. */
float *rope_inverse_frequencies(double base, size_t dim);

/* The frequencies [dim / 2], malloc'ed (NULL: no memory); *attention_factor is what sines and
 * cosines are multiplied by. */
float *rope_frequencies(const Rope *rope, float *attention_factor);

/* Adds the frequencies as the tensor `name` (for LongRoPE also `name`.short) and sets config's
 * attention factor, theta and original context. */
Status rope_add(Source *source, const char *name, const Rope *rope, Error *error);

/* Adds the frequencies of layers with rope_table 1 as the tensor rope.freqs.1: base `theta`, no
 * scaling and attention factor 1; config's theta and factor stay those of the first table. */
Status rope_add_local(Source *source, double theta, Error *error);

/* Reads the parameters in config.json: rope_theta (absent: config's) and rope_scaling (transformers
 * 4) or rope_parameters (5), of which `kind` chooses one where kinds of layers have their own.
 * rope->dim is config->rotary_dim. A scaling that is not known is refused by name. Call rope_free
 * whatever the result. */
Status rope_from_json(Rope *rope, const json_t *json, const char *kind, const Config *config,
                      Error *error);

#endif
