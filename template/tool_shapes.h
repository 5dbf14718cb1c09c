/* Calls of tools as structures (constraint/structure.h): a format's marks, the names of the
 * functions, and arguments that are valid by their schemas.
 *
 * A structure allows the text that the format's template itself writes, and no variants of it.
 * Where a format writes arguments as tags, they come in the order of the schema's `properties`,
 * strings as plain text and other values as JSON. */
#ifndef TEMPLATE_TOOL_SHAPES_H
#define TEMPLATE_TOOL_SHAPES_H

#include "base/status.h"
#include "template/elements.h"
#include "template/tool_calls.h"

typedef struct ToolShapes {
    const ToolFormat *format;
    const char *text; /* [length] the chat template's, which tells variants of a format */
    size_t length;
    const json_t *tools;  /* of a request */
    const char *function; /* the only one that may be called; NULL: all */
    bool required;        /* a call must come */
    bool one_call;        /* at most one may */
} ToolShapes;

/* Makes the element of all calls of an answer. Arguments are valid by their function's schema where
 * it says "strict": true, and where a call is required also where it does not say "strict": false;
 * otherwise they are any JSON object. Fails when the format or a schema cannot be enforced. */
Status tool_shapes_calls(const ToolShapes *shapes, ElementWriter *writer, json_t **out,
                         Error *error);

/* Whether a function of the list says "strict": true. */
bool tool_shapes_strict(const json_t *tools);

#endif
