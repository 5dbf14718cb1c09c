/* A GGUF file on its way to becoming a Source, and its keys "ARCHITECTURE.name". */
#ifndef FORMATS_FAMILY_GGUF_MODEL_H
#define FORMATS_FAMILY_GGUF_MODEL_H

#include "formats/containers/gguf.h"

/* What counts where a file of ollama's does not say it, or says it wrongly (gguf_ollama.h). */
typedef struct GgufAbsent {
    const char *tokenizer_model; /* in place of "llama"; NULL: as the file says */
    const char *pre;             /* of the tokenizer, in place of the file's; NULL: as it says */
    const char *scaling_type;    /* of RoPE, where the file has none; NULL: linear */
    double scaling_factor;       /* where the file has neither type nor factor; 0: none */
    bool trims_tokens;           /* tokens without an embedding are left out */
} GgufAbsent;

typedef struct GgufModel {
    Source *source;
    Gguf gguf; /* of the first file, which holds the metadata */
    RawTable table;
    char architecture[32];
    char prefix[32]; /* what its keys begin with: the architecture's name in the file */
    GgufAbsent absent;
    Error *error;
} GgufModel;

/* The value of the key "PREFIX.name"; false, and *value unchanged, when the key is absent or
 * of another type (gguf_check_types). */
bool gguf_model_uint(const GgufModel *model, const char *name, uint32_t *value);
bool gguf_model_float(const GgufModel *model, const char *name, double *value);
bool gguf_model_bool(const GgufModel *model, const char *name, bool *value);
bool gguf_model_text(const GgufModel *model, const char *name, TokenizerString *value);
/* The key's value or array of values of this kind; NULL: absent, or of another type. */
const GgufValue *gguf_model_find(const GgufModel *model, const char *name, GgufKind kind);
/* The same of any type: for those who ask whether the key is there. */
const GgufValue *gguf_model_value(const GgufModel *model, const char *name);

/* Whether the file has the tensor `name`; blk.LAYER.REST. */
bool gguf_model_has(const GgufModel *model, const char *name);
bool gguf_model_layer_has(const GgufModel *model, uint32_t layer, const char *rest);

#endif
