/* Texts that may not be UTF-8, as JSON; and which lines of a file of JSON lines count. */
#ifndef JSON_TEXT_H
#define JSON_TEXT_H

#include <jansson.h>
#include <stdbool.h>

/* A JSON string of bytes[n]; each ill-formed UTF-8 sequence becomes U+FFFD. NULL: no memory,
 * after json_text_lacks_memory. */
json_t *json_lossy_text(const char *bytes, size_t n);

/* To be called where memory for a part of a JSON text was refused, so that no text without that
 * part is written. A program of ours says so and ends, as it does when jansson gets no memory
 * (json/json_memory.h); in a library nothing happens, because it throws away what was made while
 * memory was refused (ports/library/refused.h). */
void json_text_lacks_memory(void);

/* Whether the line holds only spaces, tabs and carriage returns. */
bool json_line_is_blank(const char *line, size_t length);

#endif
