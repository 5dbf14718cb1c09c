/* Gemma 3n and Gemma 4 in GGUF files, for the table in gguf_families.c. */
#ifndef FORMATS_GGUF_GEMMA_H
#define FORMATS_GGUF_GEMMA_H

#include "formats/gguf_model.h"

extern const TensorRule gguf_gemma3n_tensors[], gguf_gemma4_tensors[];

/* GgufFamily.finish, .by_layer and .more. */
Status gguf_gemma3n_finish(const GgufModel *model, Config *config);
Status gguf_gemma4_finish(const GgufModel *model, Config *config);
Status gguf_gemma_by_layer(const GgufModel *model, Config *config);
Status gguf_gemma3n_more(GgufModel *model);
Status gguf_gemma4_more(GgufModel *model);

#endif
