/* The architectures of GGUF files: what llama.cpp's names of architectures, tensors and keys mean
 * in terms of the one Config. The table is in gguf_families.c; what all architectures have in
 * common is read by gguf_reader.c. */
#ifndef FORMATS_GGUF_FAMILIES_H
#define FORMATS_GGUF_FAMILIES_H

#include "formats/gguf_family.h"

/* The entry for this file; NULL: the architecture is not known. */
const GgufFamily *gguf_family_find(const GgufModel *model);

/* The entry of the architecture for the family `model_type`, or else the first one for all files of
 * the architecture; NULL: the architecture is not known. */
const GgufFamily *gguf_family_of(const char *architecture, const char *model_type);

/* Lists the names of all architectures, for the message that refuses another. */
void gguf_family_names(char *text, size_t size);

#endif
