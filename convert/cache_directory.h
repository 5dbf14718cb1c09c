/* The directory of the user that keeps models converted from other formats. */
#ifndef CACHE_DIRECTORY_H
#define CACHE_DIRECTORY_H

#include <stdbool.h>

/* Returns the path, malloc'ed: `chosen` unless NULL, else $XDG_CACHE_HOME/verbatim, else
 * ~/.cache/verbatim (XDG Base Directory Specification). NULL when neither variable is set, or when
 * memory is short. */
char *cache_directory(const char *chosen);

/* Creates the directory and its parents where they are missing, with mode 0700. Returns false with
 * errno when the directory cannot be written to. */
bool cache_directory_make(const char *directory);

#endif
