/* Whether bytes are the beginning of a JSON object: what a kill or a full disk leaves of a line. */
#ifndef JSON_PREFIX_H
#define JSON_PREFIX_H

#include <stdbool.h>
#include <stddef.h>

/* True where bytes after text[n] could complete it to one JSON object (RFC 8259). False for a
 * whole object, for n == 0, and for arrays and objects inside one another more than 2,048 deep. */
bool json_prefix_is_cut(const char *text, size_t n);

#endif
