/* Texts that may not be UTF-8, as JSON. */
#ifndef JSON_TEXT_H
#define JSON_TEXT_H

#include <jansson.h>

/* A JSON string of bytes[n]; each ill-formed UTF-8 sequence becomes U+FFFD. NULL: no memory. */
json_t *json_lossy_text(const char *bytes, size_t n);

#endif
