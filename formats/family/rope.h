/* RoPE frequencies, computed as transformers' modeling_rope_utils.py does, step by step in float32.
 * The model file stores them. */
#ifndef FORMATS_FAMILY_ROPE_H
#define FORMATS_FAMILY_ROPE_H

#include <jansson.h>

#include "formats/containers/source.h"

typedef enum RopeScaling {
    ROPE_DEFAULT,
    ROPE_LINEAR,       /* all frequencies divided by the factor */
    ROPE_LLAMA3,       /* low frequencies divided, high ones kept, a ramp between */
    ROPE_YARN,         /* a ramp over dimensions, and an attention factor */
    ROPE_DYNAMIC,      /* the base grows when the context exceeds the original one */
    ROPE_LONGROPE,     /* a factor for each frequency, and an attention factor */
    ROPE_PROPORTIONAL, /* the first frequencies are divided by the factor, the others are 0 */
    ROPE_SCALINGS
} RopeScaling;

typedef struct Rope {
    RopeScaling scaling;
    double theta;
    size_t dim; /* rotated elements of a head; where it is odd, one more is rotated */
    double factor;
    double original_context;                  /* the context that the model was trained with */
    double low_freq_factor, high_freq_factor; /* llama3 */
    double beta_fast, beta_slow;              /* yarn */
    double mscale, mscale_all_dim;            /* yarn; 0: not given */
    double part;             /* proportional: the part of the frequencies that is not 0 */
    bool compressed;         /* DeepSeek V4: the parameters `main` are those of layers with
                              * rope_table 0, `compress` those of the others. Where one of them is
                              * missing, all parameters belong to the latter */
    bool reversed;           /* the frequencies are negative */
    bool truncate;           /* yarn: the ramp's ends are rounded to whole numbers */
    double attention_factor; /* NAN: the scaling's own formula gives it */
    float *factors;          /* longrope: [dim / 2], owned */
    float *short_factors;    /* for contexts up to the original one, owned */
    float *exponents; /* each frequency is multiplied by exp of its own; owned, may be NULL */
} Rope;

/* RoPE without scaling. */
Rope rope_default(double theta, size_t dim);

void rope_free(Rope *rope);

/* base^(-2i / dim) for i < dim / 2, in float32 as transformers computes it: the power, then its
 * reciprocal. malloc'ed; NULL: no memory. */
float *rope_inverse_frequencies(double base, size_t dim);

/* The frequencies [(dim + 1) / 2], malloc'ed (NULL: no memory); *attention_factor is what sines and
 * cosines are multiplied by. */
float *rope_frequencies(const Rope *rope, float *attention_factor);

/* Adds the frequencies as the tensor `name` (for LongRoPE also `name`.short) and sets config's
 * attention factor, theta and original context. */
Status rope_add(Source *source, const char *name, const Rope *rope, Error *error);

/* Adds the frequencies of layers with rope_table 1 as the tensor rope.freqs.1 and sets config's
 * local attention factor; config's theta and factor stay those of the first table. The scaling must
 * not depend on the context. */
Status rope_add_local(Source *source, const Rope *rope, Error *error);

/* ---- config.json ---- */

/* Where a family's config.json has its RoPE parameters. They are the members of the object
 * rope_scaling (transformers 4), else of rope_parameters (5). */
typedef struct RopeKeys {
    bool none;          /* the family reads no keys: its base is 10000 */
    const char *theta;  /* key of the base beside the parameters; NULL: rope_theta */
    const char *part;   /* key, beside the parameters, of the part of a head that is rotated;
                         * NULL: the family rotates whole heads */
    double part_absent; /* the rotated part where no key gives it */
    const char *width;  /* key of the width that the rotated part is a fraction of; NULL: a head's.
                         * GPT-NeoX's heads are as wide as hidden_size says, whatever head_dim is */
    const char *count;  /* key, beside the parameters, of the number of elements of a head that
                         * are rotated, where no key gives the part; NULL: none */
    bool part_is_even;  /* the class cannot rotate an odd number of elements */
    double original_context; /* original_max_position_embeddings where config.json lacks it beside
                              * the parameters, which are not asked; 0: the parameters have it */
    const char *absent;      /* the parameters where config.json has none, as JSON; NULL: none.
                              * With local_theta: those of the layers with rope_table 0 */
    double local_theta;      /* base of the layers with rope_table 1; the parameters then hold an
                              * object for each kind of layers. 0: all layers have the same */
    const char *local_theta_key;
    double local_theta_given; /* used instead where config.json has parameters, but no such base;
                               * 0: local_theta */
    bool yarn_is_longrope;    /* Phi 3's first files call it so */
    bool has_mscales;  /* Phi 3.5 MoE: LongRoPE's attention factor is given twice, for long and
                        * for short texts */
    bool has_sections; /* its scaling 'mrope' is none: the three positions of M-RoPE are equal in
                        * a text */
    bool has_alpha;    /* HunYuan: dynamic scaling with an alpha stretches the base by it, for
                        * any context */
    bool has_query_scaling; /* Ministral 3: queries grow with the position by llama_4_scaling_beta,
                             * which the parameters hold: rope_query_scaling */
    bool has_xdrope;        /* HunYuan VL: 'xdrope' is another name of dynamic scaling */
    bool layer_thetas;      /* the list layer_rope_theta gives each layer its base */
    bool layer_lists;    /* where rope_parameters has no object for each kind of layers, the lists
                          * rope_theta and partial_rotary_factors give each layer its own: Step 3.5 */
    bool scales_both;    /* rope_scaling is that of the layers with either table: ModernBERT */
    bool scaled_layers;  /* rope_scaling_layers lists the layers that have the scaling; the others
                          * have  the second table, of the same base: Molmo 2 */
    bool compressed;     /* DeepSeek V4: the parameters `main` are those of layers with rope_table
                          * 0, `compress` those of the others. Where one of them is missing, all
                          * parameters belong to the latter */
    bool by_layer_type;  /* the parameters may hold an object for each name in layer_types; those of
                          * sliding_attention are of the layers with rope_table 1: dots3 note */
    bool reversed;       /* rotates the other way: NanoChat */
    const char *learned; /* tensor with Rope.exponents: Mistral Large 4; NULL: none */
    /* The kinds of layers are called hybrid and hybrid_sliding, `absent` is for both, and
     * rope_scaling is not read: ZAYA. */
    bool hybrid;
} RopeKeys;

/* Reads one number of the parameters of the layers with rope_table 0. */
Status rope_parameter(const RopeKeys *keys, const json_t *json, const char *key, double absent,
                      double *out, Error *error);

/* Reads how queries grow with the position (RopeKeys.has_query_scaling). */
Status rope_query_scaling(const RopeKeys *keys, const json_t *json, Config *config, Error *error);

/* Sets rope_table from the list layer_rope_theta: 0 for the layers with its first base, 1 for those
 * with another, 2 where the base is 0: not rotated. Refuses a third base. */
Status rope_layer_tables(const json_t *json, Config *config, Error *error);

/* Sets config's rotary_dim, if it is 0, from head_dim and the part that is rotated. */
Status rope_set_rotary_dim(const RopeKeys *keys, const json_t *json, Config *config, Error *error);

/* *factor = what the scores of latent attention are multiplied by: the square of YaRN's
 * mscale_all_dim, as DeepSeek's models have it; 1 where config.json does not ask for it. */
Status rope_score_factor(const RopeKeys *keys, const json_t *json, double *factor, Error *error);

/* Reads the parameters of the layers with rope_table 1 (`local`) or 0. A parameter or a scaling
 * that is not known is refused by name. Call rope_free whatever the result. */
Status rope_from_json(Rope *rope, const RopeKeys *keys, const json_t *json, bool local,
                      const Config *config, Error *error);

#endif
