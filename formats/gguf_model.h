/* A GGUF file on its way to becoming a Source, and its keys "ARCHITECTURE.name". */
#ifndef FORMATS_GGUF_MODEL_H
#define FORMATS_GGUF_MODEL_H

#include "formats/gguf.h"

typedef struct GgufModel {
    Source *source;
    Gguf gguf; /* of the first file, which holds the metadata */
    RawTable table;
    char architecture[32];
    Error *error;
} GgufModel;

/* The value of the key "ARCHITECTURE.name"; false, and *value unchanged, when the key is absent or
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
