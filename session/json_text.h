/* Texts that may not be UTF-8, as JSON; and which lines of a file of JSON lines count. */
#ifndef JSON_TEXT_H
#define JSON_TEXT_H

#include <jansson.h>
#include <stdbool.h>

/* A JSON string of bytes[n]; each ill-formed UTF-8 sequence becomes U+FFFD. NULL: no memory. */
json_t *json_lossy_text(const char *bytes, size_t n);

/* Whether the line holds only spaces, tabs and carriage returns. */
bool json_line_is_blank(const char *line, size_t length);

#endif
