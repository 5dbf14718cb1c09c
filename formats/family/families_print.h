/* What the program knows of families, for people: `run --families`. */
#ifndef FORMATS_FAMILY_FAMILIES_PRINT_H
#define FORMATS_FAMILY_FAMILIES_PRINT_H

#include <stdio.h>

#include "base/status.h"

/* Prints the names of all families (name ""), or one as a page: the program's own page, or what the
 * tables of one in C say. */
Status families_print(FILE *out, const char *name, Error *error);

#endif
