/* Sizes in bytes, as people write them. */
#ifndef SIZE_H
#define SIZE_H

#include <stddef.h>

#include "base/status.h"

/* Reads a size such as "512M", "1.5GiB" or "8000000", where K, M, G and T are powers of 1024.
 * STATUS_USAGE when `text` is not a size; the message begins with `what`, an option's name. */
Status size_parse(const char *text, const char *what, size_t *bytes, Error *error);

/* "1.5 GiB", written into text[size], which it returns. */
const char *size_text(double bytes, char *text, size_t size);

#endif
