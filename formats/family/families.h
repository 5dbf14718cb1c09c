/* The table of families, by their model_type. */
#ifndef FORMATS_FAMILY_FAMILIES_H
#define FORMATS_FAMILY_FAMILIES_H

#include "formats/family/family.h"

/* The family that reads a config.json of the model_type, of a page of the program; NULL:
 * none does. A page is read when it is first asked for, and then kept. */
const Family *family_find(const char *model_type);

/* Whether the program knows the model_type in GGUF files alone: family_find gives NULL for it. */
bool family_is_gguf_alone(const char *model_type);

/* The i-th name of a family that reads config.json; NULL: there are no more. */
const char *family_name(size_t i);

/* The i-th family of all; NULL: there are no more. Reads every page. */
const Family *family_at(size_t i);

/* How many pages of the program have been read so far. */
size_t family_pages_read(void);

/* Writes why a model of this model_type cannot run: that it is an encoder, or which model_type that
 * runs is nearest (`near`; NULL: by its name), what that one lacks, and what config.json says the
 * model has. */
void family_explain(const char *model_type, const json_t *config, const char *near,
                    const char *lacks, char *text, size_t size);

/* The entry for this file, and the model_type of its family; NULL: the architecture is not known.
 */
const GgufFamily *family_gguf_find(const GgufModel *model, const char **model_type);

/* The entry of the architecture for the family `model_type`, or else the first one for all files of
 * the architecture; NULL: the architecture is not known. */
const GgufFamily *family_gguf_of(const char *architecture, const char *model_type);

/* Whether some entry is for files of the architecture. */
bool family_gguf_is_known(const char *architecture);

/* Lists the names of all architectures, for the message that refuses another; ends with "..." where
 * they do not fit. */
void family_gguf_names(char *text, size_t size);

#endif
