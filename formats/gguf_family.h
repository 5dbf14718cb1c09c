/* A GGUF file as a model in the reading, and the table of the architectures that are known: what
 * llama.cpp's name, tensors and keys are in terms of the one Config.
 *
 * gguf_model.c reads what all architectures have in common, gguf_families.c holds the table,
 * gguf_positions.c makes the tables of positions. */
#ifndef FORMATS_GGUF_FAMILY_H
#define FORMATS_GGUF_FAMILY_H

#include "formats/gguf.h"

typedef struct GgufModel {
    Source *source;
    Gguf gguf; /* of the first file, which holds the metadata */
    RawTable table;
    char architecture[32];
    Error *error;
} GgufModel;

/* The value of the key "ARCHITECTURE.rest"; false, and *value unchanged, when it is absent or
 * of another kind. */
bool gguf_model_uint(const GgufModel *model, const char *rest, uint32_t *value);
bool gguf_model_float(const GgufModel *model, const char *rest, double *value);
bool gguf_model_bool(const GgufModel *model, const char *rest, bool *value);
bool gguf_model_text(const GgufModel *model, const char *rest, TokenizerString *value);
/* The same as it stands in the file; NULL: absent. */
const GgufValue *gguf_model_find(const GgufModel *model, const char *rest);

typedef struct GgufFamily {
    const char *architecture; /* general.architecture */
    const char *model_type;   /* transformers' name of the family */
    const TensorRule *tensors;
    /* llama.cpp stores the rows of q and k of a llama in Meta's order, in which a pair that is
     * rotated together stands side by side; of most others as transformers does. */
    RopePairing pairing;
    /* What no key tells, and what keys tell that other families do not have; or NULL. */
    Status (*finish)(const GgufModel *model, Config *config);
    /* attention.sliding_window is that of all layers but each `full_every`-th (1: of all), where
     * attention.sliding_window_pattern does not say otherwise; 0: no window is known. */
    uint32_t full_every;
    uint32_t window;    /* where the key is absent */
    const char *where;  /* the entry is for files with this tensor alone; or NULL */
    double local_theta; /* of layers with a window, where rope.freq_base_swa is absent; 0: as all */
    bool full_are_not_rotated; /* layers without a window, where others have one */
    bool yarn_keeps_ends;      /* the ramp's ends are no whole dimensions */
} GgufFamily;

/* The entry for this file; NULL: not known. */
const GgufFamily *gguf_family_find(const GgufModel *model);

/* The names of all architectures, for the message that refuses another. */
void gguf_family_names(char *text, size_t size);

/* Adds RoPE's frequencies or ALiBi's slopes, as config->position says. */
Status gguf_add_positions(GgufModel *model, const GgufFamily *family);

#endif
