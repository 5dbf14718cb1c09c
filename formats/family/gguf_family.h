/* What the architecture of GGUF files means: a part of a family's description (family.h). */
#ifndef FORMATS_FAMILY_GGUF_FAMILY_H
#define FORMATS_FAMILY_GGUF_FAMILY_H

#include "formats/family/gguf_model.h"
#include "formats/family/presets.h"
#include "formats/family/steps.h"

/* What stands before names in a layer. */
#define GGUF_LAYERS "blk.%u."

/* Reads the keys that only this architecture has. */
typedef Status GgufFinish(const GgufModel *model, Config *config);
/* Adds tensors that the file does not hold as such: parts of stacked ones, computed ones. */
typedef Status GgufMore(GgufModel *model);

/* The key "ARCHITECTURE.key" fills the field, if the file has it. */
typedef struct GgufKey {
    const char *key, *field;
} GgufKey;

typedef struct GgufFamily {
    const char *architecture; /* general.architecture */
    /* The entry is only for files that have this tensor. NULL: for all files of the architecture.
     */
    const char *needs_tensor;
    /* How the elements that RoPE rotates together are paired in q and k: llama.cpp reorders the
     * rows of llamas and their nearest kin (interleaved) and leaves most others as transformers
     * has them (halves). */
    RopePairing pairing;
    /* Keys that a file must have, separated by spaces, in addition to the keys of all
     * architectures: keys that llama.cpp requires and that no tensor's shape gives. */
    const char *required;
    double norm_eps;     /* where no key gives the norms' epsilon; 0: a key must */
    double rope_theta;   /* where rope.freq_base is absent; 0: 10000, as in llama.cpp */
    const Preset *set;   /* fields that no key gives; set after the keys of all architectures */
    const GgufKey *keys; /* in addition to all architectures' keys; read after `set` */
    const TensorRule *tensors;
    const Step *steps; /* in their order, after the keys */
    GgufFinish *finish;
    GgufMore *more;
    GgufFinish *by_layer; /* sets the fields of layers that depend on their windows */
    /* Which layers have the window of attention.sliding_window, unless
     * attention.sliding_window_pattern says otherwise: all but every full_every-th; 1: all;
     * 0: the family has no windows, and the key is refused. */
    uint32_t full_every;
    uint32_t window;    /* used where attention.sliding_window is absent */
    double local_theta; /* RoPE base of layers with a window, where rope.freq_base_swa is absent;
                         * 0: as in the other layers; below 0: the same base without the scaling */
    bool
        full_are_not_rotated; /* layers without a window have no RoPE, where others have a window */
    bool dense_are_rotated;   /* the leading dense layers have RoPE all the same */
    bool full_is_first;       /* the first, not the last of full_every layers has no window */
    bool mscales_are_equal;   /* of YaRN, where yarn_log_multiplier is given: sines and cosines keep
                               * their size */
    bool predicts;            /* prediction layers are kept; of other families they are left out */
    bool yarn_keeps_ends;     /* the ends of YaRN's ramp are not rounded to whole dimensions */
    bool scales_queries;  /* attention.temperature_scale says how queries grow with the position */
    bool compressed_rope; /* the scaling is that of layers with rope_table 1, whose base is
                           * attention.compress_rope_freq_base; the others have none */
    bool pads_rope_freqs; /* rope_freqs.weight, which is for layers without a window, is as long
                           * as the layers with one need */
} GgufFamily;

#endif
