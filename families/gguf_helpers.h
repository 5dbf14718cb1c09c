/* Helpers of the families' hooks, for GGUF files. */
#ifndef FAMILIES_GGUF_HELPERS_H
#define FAMILIES_GGUF_HELPERS_H

#include "formats/gguf_family.h"

/* Reads the widths of latent attention, which all layers have. */
GgufFinish gguf_latent_finish;

GgufFinish gguf_cohere_finish;

/* Queries grow with the position by attention.temperature_scale. */
GgufFinish gguf_mistral3_finish;

/* YaRN's mscale_all_dim, of which the file gives a tenth. */
void gguf_scale_scores(const GgufModel *m, Config *c);

/* DeepSeek V2 and V3, and what llama.cpp takes for them: GLM-4.7-Flash, Youtu, Kimi K2. */
GgufFinish gguf_deepseek2_finish;

/* DeepSeek V3.2 and GLM-5. A layer without an indexer of its own takes the choice of the one before
 * it. */
GgufFinish gguf_indexed_finish;

/* Reads the sizes of the states. */
GgufFinish gguf_read_state;

/* Layers without key/value heads are of the kind `other`, the rest of the kind `attends`. */
Status gguf_kinds_by_heads(const GgufModel *m, Config *c, LayerKindNumber attends,
                           LayerKindNumber other);

#endif
