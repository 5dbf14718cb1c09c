/* The formats in which models write calls of tools. */
#ifndef TEMPLATE_TOOL_CALLS_H
#define TEMPLATE_TOOL_CALLS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "json/json_digits.h"
#include "template/cursor.h"

/* How a format writes calls; tool_shapes.h knows how each is enforced. */
typedef enum ToolSyntax {
    TOOLS_CHANNEL, /* <|channel|>commentary to=functions.f <|constrain|>json<|message|>{...} */
    TOOLS_GEMMA,   /* <|tool_call>call:f{key:value}<tool_call|> */
    TOOLS_KIMI,    /* <|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{...} */
    TOOLS_DEEPSEEK, /* <｜tool▁call▁begin｜>f<｜tool▁sep｜>{...}<｜tool▁call▁end｜> */
    TOOLS_PYTHON,   /* <|tool_call_start|>[f(key="value")]<|tool_call_end|> */
    TOOLS_MISTRAL,       /* [TOOL_CALLS][{...}] or [TOOL_CALLS]f[ARGS]{...} */
    TOOLS_ARGUMENT_TAGS, /* <tool_call>f<arg_key>key</arg_key><arg_value>value</arg_value> ... */
    TOOLS_FUNCTION_TAGS, /* <tool_call><function=f><parameter=key>value</parameter> ... */
    TOOLS_LISTED,        /* <tool_calls>[{...}, ...]</tool_calls> */
    TOOLS_TAGGED,        /* <tool_call>{...}</tool_call> */
    TOOLS_JSON           /* {"name": "f", "parameters": {...}} */
} ToolSyntax;

/* Calls that are being read. */
typedef struct ToolCallList {
    json_t *calls;      /* each {"name", "arguments": text that is JSON} */
    JsonDigits *digits; /* of the numbers in arguments (json/json_digits.h) */
} ToolCallList;

typedef struct ToolFormat {
    const char *name;
    ToolSyntax syntax;
    const char *marks[3]; /* a template that holds all of them (NULL-terminated) has this format */
    /* Calls stand from here on to the end of the answer. NULL: the answer is a call as a whole. */
    const char *begin;
    const char *tokens[10]; /* what of it may be control tokens; NULL-terminated */
    /* Reads one call that starts at the cursor: appends it to the list and moves the cursor past
     * it. False, and both unchanged, where there is no complete call. */
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
