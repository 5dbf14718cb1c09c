/* What the user sees and deletes of the cache of conversions. */
#ifndef CONVERSION_LIST_H
#define CONVERSION_LIST_H

#include <stdio.h>

#include "base/status.h"

/* Prints size, date, type, name and source of every conversion, and the sum. A source that is gone
 * or has changed since is named so: its conversion is no longer used. */
Status conversion_list_print(FILE *out, const char *cache_dir, Error *error);

/* Deletes conversions and prints how much room that made. `only`: the name of one as the list has
 * it, or its source; "": all of them. Fails when none has the name. */
Status conversion_list_clear(FILE *out, const char *cache_dir, const char *only, Error *error);

#endif
