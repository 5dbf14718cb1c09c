/* The table of families, by their model_type. */
#ifndef FORMATS_FAMILIES_H
#define FORMATS_FAMILIES_H

#include "formats/family.h"

/* NULL: not known. */
const Family *family_find(const char *model_type);

/* "llama, mistral, ...": for the message that refuses another. */
void family_names(char *text, size_t size);

#endif
