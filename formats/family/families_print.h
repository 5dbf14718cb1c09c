/* What the program knows of families, for people: `run --families`. */
#ifndef FORMATS_FAMILY_FAMILIES_PRINT_H
#define FORMATS_FAMILY_FAMILIES_PRINT_H

#include <stdio.h>

#include "base/status.h"

/* Prints the names of all families (name ""), or the page of one. */
Status families_print(FILE *out, const char *name, Error *error);

#endif
