/* The table of families, by their model_type. */
#ifndef FORMATS_FAMILIES_H
#define FORMATS_FAMILIES_H

#include "formats/family.h"

/* NULL: not known. */
const Family *family_find(const char *model_type);

/* Writes why a model of this model_type cannot run: that it is an encoder, or which model_type that
 * runs is nearest by its name, and what config.json says the model has. */
void family_explain(const char *model_type, const json_t *config, char *text, size_t size);

#endif
