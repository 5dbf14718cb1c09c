/* The formats in which models write calls of tools. */
#ifndef TEMPLATE_TOOL_CALLS_H
#define TEMPLATE_TOOL_CALLS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "json/json_digits.h"
#include "template/cursor.h"

/* Calls that are being read. */
typedef struct ToolCallList {
    json_t *calls;      /* each {"name", "arguments": text that is JSON} */
    JsonDigits *digits; /* of the numbers in arguments (json/json_digits.h) */
} ToolCallList;

/* How an argument is written that is not a member of a JSON object. */
typedef struct ToolArguments {
    const char *before_key, *after_key, *after, *stop; /* no plain text holds `stop` */
    bool as_python;                                    /* the template writes words of Python */
} ToolArguments;

/* Stands for digits in the texts of a ToolForm. */
#define TOOL_NUMBER "\x01"

/* One way to write calls; a text that is NULL is empty. `open`, then for each call `before`, the
 * name, `after_name`, the arguments and `after`, with `between` between two calls, then `close`. By
 * these texts calls are enforced, to the byte (tool_shapes.h), and read, with any white space
 * before '<', '[' and ']'. */
typedef struct ToolForm {
    const char *when; /* templates of this form hold it; NULL: all others */
    const char *open, *before, *after_name, *after, *between, *close;
    const char *key;    /* the call is the object {"name": NAME, KEY: {...}}, without after_name */
    const char *prefix; /* before the name, which a model may leave out; NULL: none */
    const char *id;     /* begins what a model may write after the name */
    const ToolArguments *arguments; /* NULL: they are a JSON object */
    bool is_list; /* all calls stand between `open` and `close`, which must come */
} ToolForm;

typedef struct ToolFormat {
    const char *name;
    const char *marks[3]; /* a template that holds all of them (NULL-terminated) has this format */
    /* Calls stand from here on to the end of the answer. NULL: the answer is a call as a whole. */
    const char *begin;
    const char *tokens[10]; /* what of it may be control tokens; NULL-terminated */
    /* How it is written: the last form has no `when`. NULL: it can be read, but not enforced. */
    const ToolForm *forms;
    bool one_call;   /* an answer has one call at most */
    bool writes_ids; /* templates write the id of a call as it is: "functions.f:0" */
    /* Reads one call that starts at the cursor (of a form that is_list, all of them): appends it to
     * the list and moves the cursor past it. False where there is no complete call: then the cursor
     * and the list are unspecified, and the caller drops the list. NULL: it is read by its forms.
     */
    bool (*read)(Cursor *cursor, const json_t *tools, ToolCallList *list);
} ToolFormat;

/* The first format whose marks the template's text[length] holds; NULL: none. */
const ToolFormat *tool_format_find(const char *text, size_t length);

/* Reads all calls from text[length], which starts with the format's `begin`; numbers in arguments
 * keep the digits that the model wrote. Returns the list, or NULL when any of it is not a complete
 * call of a function in `tools` (a request's list). */
json_t *tool_calls_read(const ToolFormat *format, const char *text, size_t length,
                        const json_t *tools);

/* The JSON schema of a tool's parameters; NULL: `tools` has no function of that name. An empty
 * object where the function declares none. The result belongs to `tools`, or is static. */
const json_t *tool_parameters(const json_t *tools, const char *name, size_t length);
bool tool_is_known(const json_t *tools, const char *name);
/* The function that a tool of the list describes. Some requests leave the wrapper out. */
const json_t *tool_function(const json_t *tool);

#endif
