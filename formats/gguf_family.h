/* What an entry of the table of GGUF architectures is made of; gguf_families.h finds one. */
#ifndef FORMATS_GGUF_FAMILY_H
#define FORMATS_GGUF_FAMILY_H

#include "formats/gguf_model.h"

typedef struct GgufFamily {
    const char *architecture; /* general.architecture */
    const char *model_type;   /* transformers' name of the family */
    const TensorRule *tensors;
    /* How the elements that RoPE rotates together are paired in q and k: llama.cpp reorders the
     * rows of llamas and their nearest kin (interleaved) and leaves most others as transformers
     * has them (halves). */
    RopePairing pairing;
    /* Sets the fields that no key gives, and reads the keys that only this family has. NULL: none.
     */
    Status (*finish)(const GgufModel *model, Config *config);
    /* Adds tensors that are none in the file. NULL: none. */
    Status (*more)(GgufModel *model);
    /* Sets the fields of layers that depend on their windows. NULL: none. */
    Status (*by_layer)(const GgufModel *model, Config *config);
    /* Which layers have the window of attention.sliding_window, unless
     * attention.sliding_window_pattern says otherwise: all but every full_every-th; 1: all;
     * 0: the family has no windows, and the key is refused. */
    uint32_t full_every;
    uint32_t window; /* used where attention.sliding_window is absent */
    /* The entry is only for files that have this tensor. NULL: for all files of the architecture.
     */
    const char *needs_tensor;
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
    bool pads_rope_freqs;     /* rope_freqs.weight, which is for layers without a window, is as long
                               * as the layers with one need */
} GgufFamily;

/* The entries for layers with a state (gguf_states.c); ends with one without an architecture. */
extern const GgufFamily gguf_families_state[];

#endif
