/* The table of families, by their model_type. */
#ifndef FORMATS_FAMILIES_H
#define FORMATS_FAMILIES_H

#include "formats/family.h"

/* NULL: not known. */
const Family *family_find(const char *model_type);

/* Writes why a model of this model_type cannot run: that it is an encoder, or which model_type that
 * runs is nearest by its name, and what config.json says the model has. */
void family_explain(const char *model_type, const json_t *config, char *text, size_t size);

/* The entry for this file, and the model_type of its family; NULL: the architecture is not known.
 */
const GgufFamily *gguf_family_find(const GgufModel *model, const char **model_type);

/* The entry of the architecture for the family `model_type`, or else the first one for all files of
 * the architecture; NULL: the architecture is not known. */
const GgufFamily *gguf_family_of(const char *architecture, const char *model_type);

/* Lists the names of all architectures, for the message that refuses another. */
void gguf_family_names(char *text, size_t size);

#endif
