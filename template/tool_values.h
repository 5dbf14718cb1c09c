/* Values of parameters that calls of tools write as plain text.
 *
 * Templates with tags write a text as it is, and everything else as JSON or, Qwen3-Coder's, as
 * Python's str() has it: True, False, None. The text 5 may thus be a number or a text. The types
 * that the tool declares decide. */
#ifndef TEMPLATE_TOOL_VALUES_H
#define TEMPLATE_TOOL_VALUES_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "json/json_digits.h"

/* What a schema's values may be. */
enum {
    TOOL_VALUE_NULL = 1,
    TOOL_VALUE_BOOLEAN = 2,
    TOOL_VALUE_NUMBER = 4,
    TOOL_VALUE_STRING = 8,
    TOOL_VALUE_ARRAY = 16,
    TOOL_VALUE_OBJECT = 32,
    TOOL_VALUE_ANY = 63
};

/* The types that the schema of one parameter admits, by its type, enum, const, anyOf, oneOf, allOf,
 * nullable and references to definitions in `parameters`, the schema of all of them. */
unsigned tool_value_types(const json_t *schema, const json_t *parameters);

/* Whether the parameter admits nothing but texts and says so without a reference or a combination.
 * Such a text is written without quotes also where the schema is enforced. Without a type it may be
 * anything. */
bool tool_value_is_text(const json_t *schema);

/* The value of the parameter `key` that is written as text[length]; the digits of its numbers go to
 * `digits` (json/json_digits.h). `as_python`: its template writes words of Python. NULL: no
 * memory. */
json_t *tool_value_read(const json_t *parameters, const char *key, const char *text, size_t length,
                        bool as_python, JsonDigits *digits);

#endif
