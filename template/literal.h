/* Values as models write them in calls of tools where they do not write JSON. */
#ifndef TEMPLATE_LITERAL_H
#define TEMPLATE_LITERAL_H

#include <jansson.h>
#include <stdbool.h>

#include "json/json_digits.h"

typedef struct LiteralStyle {
    const char *quotes[3];   /* what begins and ends a text; NULL-terminated */
    bool escapes;            /* a backslash escapes, as in Python */
    bool bare_keys;          /* keys of objects need no quotes */
    bool open_quotes;        /* a quote ends a text only where something may follow the text */
    const char *words[2][3]; /* what true, false and null are called, and other names of theirs */
} LiteralStyle;

extern const LiteralStyle literal_gemma, literal_python;

/* Reads one value that starts at *at, perhaps after space, and moves *at past it. NULL, and *at
 * anywhere, where there is no complete value. At most 64 levels deep. The digits of numbers go to
 * `digits` (json/json_digits.h). */
json_t *literal_read(const char **at, const char *end, const LiteralStyle *style,
                     JsonDigits *digits);

#endif
