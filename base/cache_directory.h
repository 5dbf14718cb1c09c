/* The user's cache directory: where conversions of other formats' models are kept. */
#ifndef CACHE_DIRECTORY_H
#define CACHE_DIRECTORY_H

#include <stdbool.h>

/* Its path, malloc'ed: `chosen` where the user has chosen one, else $XDG_CACHE_HOME/verbatim, else
 * ~/.cache/verbatim (XDG Base Directory Specification). NULL when there is none, or no memory. */
char *cache_directory(const char *chosen);

/* Makes it where it is missing, with all above it, for the user alone. False with errno when it
 * cannot be written to. */
bool cache_directory_make(const char *directory);

#endif
