#include "template/tool_calls.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json/json_digits.h"
#include "json/json_reader.h"
#include "template/literal.h"
#include "template/tool_values.h"

/* ---- Tools ---- */

const json_t *tool_function(const json_t *tool) {
    const json_t *function = json_object_get(tool, "function");
    return function ? function : tool;
}

static const json_t *find_function(const json_t *tools, const char *name, size_t length) {
    for (size_t i = 0; i < json_array_size(tools); i++) {
        const json_t *function = tool_function(json_array_get(tools, i));
        const json_t *own = json_object_get(function, "name");
        if (json_is_string(own) && json_string_length(own) == length &&
            memcmp(json_string_value(own), name, length) == 0)
            return function;
    }
    return NULL;
}

bool tool_is_known(const json_t *tools, const char *name) {
    return find_function(tools, name, strlen(name)) != NULL;
}

const json_t *tool_parameters(const json_t *tools, const char *name, size_t length) {
    const json_t *function = find_function(tools, name, length);
    return function ? json_object_get(function, "parameters") : NULL;
}

/* ---- Reading ---- */

/* Takes the text before the next `end`, and `end` itself. */
static bool take_until(Cursor *c, const char *end, const char **text, size_t *length) {
    const char *found = memmem(c->at, cursor_left(c), end, strlen(end));
    if (!found) return false;
    *text = c->at;
    *length = (size_t)(found - c->at);
    c->at = found + strlen(end);
    return true;
}

/* Takes one JSON value; NULL: there is none. */
static json_t *take_json(Cursor *c, ToolCallList *list) {
    const size_t flags =
        JSON_DECODE_ANY | JSON_ALLOW_NUL | JSON_DISABLE_EOF_CHECK | JSON_READER_LONE_SURROGATES;
    json_error_t where;
    cursor_skip_space(c);
    json_t *value = json_reader_load_digits(c->at, cursor_left(c), flags, list->digits, &where);
    if (value) c->at += where.position;
    return value;
}

static void trim(const char **text, size_t *length) {
    while (*length > 0 && strchr(" \n\r\t", **text)) (*text)++, (*length)--;
    while (*length > 0 && strchr(" \n\r\t", (*text)[*length - 1])) (*length)--;
}

/* Appends a call; takes the reference to `arguments`, which must be an object. */
static bool add_call(ToolCallList *list, const char *name, size_t length, json_t *arguments) {
    char *text = json_is_object(arguments) ? json_digits_dumps(arguments, list->digits, 0) : NULL;
    json_t *call = text && length > 0 ? json_object() : NULL;
    if (call) {
        json_object_set_new(call, "name", json_stringn(name, length));
        json_object_set_new(call, "arguments", json_string(text));
    }
    free(text);
    json_decref(arguments);
    bool is_whole =
        call && json_object_size(call) == 2 && json_array_append(list->calls, call) == 0;
    json_decref(call);
    return is_whole;
}

/* Appends the call that is {"name": ..., KEY: {...}}. Arguments may be JSON in a text. */
static bool add_object(ToolCallList *list, const json_t *object) {
    static const char *const keys[] = {"arguments", "parameters"};
    const json_t *name = json_object_get(object, "name");
    if (!json_is_string(name)) return false;
    for (size_t i = 0; i < 2; i++) {
        json_t *value = json_object_get(object, keys[i]);
        json_t *parsed = json_is_string(value)
                             ? json_reader_load_digits(
                                   json_string_value(value), json_string_length(value),
                                   JSON_ALLOW_NUL | JSON_READER_LONE_SURROGATES, list->digits, NULL)
                             : json_incref(value);
        if (value) return add_call(list, json_string_value(name), json_string_length(name), parsed);
    }
    return add_call(list, json_string_value(name), json_string_length(name), json_object());
}

/* Takes a JSON list of one call or more and appends them. */
static bool take_list(Cursor *c, ToolCallList *list) {
    json_t *items = take_json(c, list);
    bool is_whole = json_array_size(items) > 0;
    for (size_t i = 0; is_whole && i < json_array_size(items); i++)
        is_whole = add_object(list, json_array_get(items, i));
    json_decref(items);
    return is_whole;
}

/* ---- The formats ---- */

/* <tool_call>{"name": "f", "arguments": {...}}</tool_call> */
static bool read_tagged(Cursor *c, const json_t *tools, ToolCallList *list) {
    (void)tools;
    if (!cursor_take(c, "<tool_call>")) return false;
    json_t *object = take_json(c, list);
    cursor_skip_space(c);
    bool is_call = object && cursor_take(c, "</tool_call>") && add_object(list, object);
    json_decref(object);
    return is_call;
}

/* The arguments of a call whose parameters are written as plain text. */
typedef struct PlainArguments {
    const json_t *parameters; /* the schema of all of them */
    json_t *values;
    bool as_python; /* the template writes words of Python */
} PlainArguments;

/* Sets the argument `key`, which is not NUL-terminated. */
static bool set_argument(PlainArguments *arguments, ToolCallList *list, const char *key,
                         size_t key_length, const char *text, size_t length) {
    char *name = strndup(key, key_length);
    json_t *value = name ? tool_value_read(arguments->parameters, name, text, length,
                                           arguments->as_python, list->digits)
                         : NULL;
    bool is_set = value && json_object_set_new(arguments->values, name, value) == 0;
    free(name);
    return is_set;
}

/* <tool_call><function=f><parameter=key>value</parameter></function></tool_call>, with newlines
 * around each value. */
static bool read_function_tags(Cursor *c, const json_t *tools, ToolCallList *list) {
    const char *name, *key, *value;
    size_t name_length, key_length, length;
    if (!cursor_take(c, "<tool_call>")) return false;
    cursor_skip_space(c);
    if (!cursor_take(c, "<function=") || !take_until(c, ">", &name, &name_length)) return false;
    PlainArguments arguments = {tool_parameters(tools, name, name_length), json_object(), true};
    bool is_whole = arguments.values != NULL;
    for (cursor_skip_space(c); is_whole && cursor_take(c, "<parameter="); cursor_skip_space(c)) {
        is_whole =
            take_until(c, ">", &key, &key_length) && take_until(c, "</parameter>", &value, &length);
        if (!is_whole) break;
        if (length > 0 && value[0] == '\n') value++, length--;
        if (length > 0 && value[length - 1] == '\n') length--;
        is_whole = set_argument(&arguments, list, key, key_length, value, length);
    }
    is_whole = is_whole && cursor_take(c, "</function>");
    cursor_skip_space(c);
    if (is_whole && cursor_take(c, "</tool_call>"))
        return add_call(list, name, name_length, arguments.values);
    json_decref(arguments.values);
    return false;
}

/* <tool_call>f<arg_key>key</arg_key><arg_value>value</arg_value></tool_call> */
static bool read_argument_tags(Cursor *c, const json_t *tools, ToolCallList *list) {
    const char *key, *value;
    size_t key_length, length;
    if (!cursor_take(c, "<tool_call>")) return false;
    const char *name = c->at, *stop = memchr(c->at, '<', cursor_left(c));
    if (!stop) return false;
    size_t name_length = (size_t)(stop - name);
    c->at = stop;
    trim(&name, &name_length);
    PlainArguments arguments = {tool_parameters(tools, name, name_length), json_object(), false};
    bool is_whole = arguments.values != NULL;
    for (cursor_skip_space(c); is_whole && cursor_take(c, "<arg_key>"); cursor_skip_space(c)) {
        is_whole = take_until(c, "</arg_key>", &key, &key_length);
        cursor_skip_space(c);
        is_whole = is_whole && cursor_take(c, "<arg_value>") &&
                   take_until(c, "</arg_value>", &value, &length) &&
                   set_argument(&arguments, list, key, key_length, value, length);
    }
    if (is_whole && cursor_take(c, "</tool_call>"))
        return add_call(list, name, name_length, arguments.values);
    json_decref(arguments.values);
    return false;
}

/* {"name": "f", "parameters": {...}}, perhaps after <|python_tag|> and divided by semicolons. */
static bool read_object(Cursor *c, const json_t *tools, ToolCallList *list) {
    (void)tools;
    cursor_take(c, "<|python_tag|>");
    json_t *object = take_json(c, list);
    bool is_call = json_is_object(object) && add_object(list, object);
    json_decref(object);
    cursor_skip_space(c);
    if (is_call) cursor_take(c, ";");
    return is_call;
}

/* [TOOL_CALLS][{"name": "f", "arguments": {...}}, ...] or [TOOL_CALLS]f[ARGS]{...} */
static bool read_mistral(Cursor *c, const json_t *tools, ToolCallList *list) {
    const char *name;
    size_t length;
    (void)tools;
    if (!cursor_take(c, "[TOOL_CALLS]")) return false;
    cursor_skip_space(c);
    if (c->at < c->end && *c->at != '[') {
        if (!take_until(c, "[ARGS]", &name, &length)) return false;
        const char *id = memmem(name, length, "[CALL_ID]", strlen("[CALL_ID]"));
        if (id) length = (size_t)(id - name);
        trim(&name, &length);
        return add_call(list, name, length, take_json(c, list));
    }
    return take_list(c, list);
}

/* <tool_calls>[{"name": "f", "arguments": {...}}, ...]</tool_calls>, or the same objects one a
 * line. */
static bool read_listed(Cursor *c, const json_t *tools, ToolCallList *list) {
    (void)tools;
    if (!cursor_take(c, "<tool_calls>")) return false;
    cursor_skip_space(c);
    bool is_whole = true;
    if (c->at < c->end && *c->at == '[') {
        is_whole = take_list(c, list);
    } else {
        while (is_whole && c->at < c->end && *c->at == '{') {
            json_t *object = take_json(c, list);
            is_whole = json_is_object(object) && add_object(list, object);
            json_decref(object);
            cursor_skip_space(c);
        }
    }
    cursor_skip_space(c);
    return is_whole && cursor_take(c, "</tool_calls>");
}

/* A channel of gpt-oss whose header names a function:
 * <|channel|>commentary to=functions.f <|constrain|>json<|message|>{...}<|call|> */
static bool read_channel(Cursor *c, const json_t *tools, ToolCallList *list) {
    static const char to[] = "to=functions.";
    const char *header;
    size_t length;
    (void)tools;
    cursor_take(c, "<|start|>");
    cursor_take(c, "assistant");
    if (!take_until(c, "<|message|>", &header, &length)) return false;
    const char *name = memmem(header, length, to, strlen(to));
    if (!name) return false;
    name += strlen(to);
    size_t n = 0, most = (size_t)(header + length - name);
    while (n < most && name[n] != ' ' && name[n] != '<' && name[n] != '\n') n++;
    if (!add_call(list, name, n, take_json(c, list))) return false;
    cursor_skip_space(c);
    if (!cursor_take(c, "<|call|>")) cursor_take(c, "<|end|>");
    return true;
}

/* The calls of DeepSeek V3 and R1, whose arguments are a block of code, and of V3.1, where they
 * follow the name at once. */
static bool read_deepseek(Cursor *c, const json_t *tools, ToolCallList *list) {
    static const char begin[] = "<｜tool▁call▁begin｜>", separator[] = "<｜tool▁sep｜>";
    static const char end[] = "<｜tool▁call▁end｜>";
    const char *name;
    size_t length;
    (void)tools;
    cursor_take(c, "<｜tool▁calls▁begin｜>");
    cursor_skip_space(c);
    if (!cursor_take(c, begin) || !take_until(c, separator, &name, &length)) return false;
    bool is_block = length == strlen("function") && memcmp(name, "function", length) == 0 &&
                    c->at < c->end && *c->at != '{'; /* a function may have this name, too */
    if (is_block && !take_until(c, "\n```json\n", &name, &length)) return false;
    trim(&name, &length);
    if (!add_call(list, name, length, take_json(c, list))) return false;
    cursor_skip_space(c);
    if (is_block && !cursor_take(c, "```")) return false;
    cursor_skip_space(c);
    if (!cursor_take(c, end)) return false;
    cursor_skip_space(c);
    cursor_take(c, "<｜tool▁calls▁end｜>");
    return true;
}

/* <|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{...}<|tool_call_end|> */
static bool read_kimi(Cursor *c, const json_t *tools, ToolCallList *list) {
    const char *name;
    size_t length;
    (void)tools;
    cursor_take(c, "<|tool_calls_section_begin|>");
    cursor_skip_space(c);
    if (!cursor_take(c, "<|tool_call_begin|>") ||
        !take_until(c, "<|tool_call_argument_begin|>", &name, &length))
        return false;
    trim(&name, &length);
    const char *colon = memrchr(name, ':', length);
    if (colon) length = (size_t)(colon - name);
    if (length > 10 && memcmp(name, "functions.", 10) == 0) name += 10, length -= 10;
    if (!add_call(list, name, length, take_json(c, list))) return false;
    cursor_skip_space(c);
    if (!cursor_take(c, "<|tool_call_end|>")) return false;
    cursor_skip_space(c);
    cursor_take(c, "<|tool_calls_section_end|>");
    return true;
}

/* <|tool_call>call:f{key:value, ...}<tool_call|>, texts between <|"|>. */
static bool read_gemma(Cursor *c, const json_t *tools, ToolCallList *list) {
    (void)tools;
    if (!cursor_take(c, "<|tool_call>call:")) return false;
    const char *name = c->at, *brace = memchr(c->at, '{', cursor_left(c));
    if (!brace) return false;
    c->at = brace;
    json_t *arguments = literal_read(&c->at, c->end, &literal_gemma, list->digits);
    if (arguments && cursor_take(c, "<tool_call|>"))
        return add_call(list, name, (size_t)(brace - name), arguments);
    json_decref(arguments);
    return false;
}

/* <|tool_call_start|>[f(key="value", ...), ...]<|tool_call_end|>, with Python's literals. */
static bool read_python(Cursor *c, const json_t *tools, ToolCallList *list) {
    (void)tools;
    cursor_take(c, "<|tool_call_start|>[");
    cursor_skip_space(c);
    const char *name = c->at, *open = memchr(c->at, '(', cursor_left(c));
    json_t *arguments = open ? json_object() : NULL;
    if (!arguments) return false;
    c->at = open + 1;
    bool is_whole = true;
    cursor_skip_space(c);
    while (is_whole && !cursor_take(c, ")")) {
        const char *key;
        size_t length;
        is_whole = take_until(c, "=", &key, &length);
        if (!is_whole) break;
        trim(&key, &length);
        char *own = strndup(key, length);
        json_t *value = literal_read(&c->at, c->end, &literal_python, list->digits);
        is_whole = own && value && json_object_set_new(arguments, own, value) == 0;
        free(own);
        cursor_skip_space(c);
        if (is_whole && !cursor_take(c, ",")) is_whole = c->at < c->end && *c->at == ')';
        cursor_skip_space(c);
    }
    size_t length = (size_t)(open - name);
    if (!is_whole) {
        json_decref(arguments);
        return false;
    }
    if (!add_call(list, name, length, arguments)) return false;
    cursor_skip_space(c);
    return cursor_take(c, ",") || cursor_take(c, "]<|tool_call_end|>") || cursor_take(c, "]");
}

/* In the order in which they are looked for: the more particular marks first. */
static const ToolFormat formats[] = {
    {.name = "channels",
     .syntax = TOOLS_CHANNEL,
     .marks = {"<|channel|>", "functions."},
     .begin = "<|channel|>",
     .tokens = {"<|call|>"},
     .read = read_channel},
    {.name = "gemma",
     .syntax = TOOLS_GEMMA,
     .marks = {"<|tool_call>call:"},
     .begin = "<|tool_call>",
     .tokens = {"<|tool_call>", "<tool_call|>", "<|\"|>"},
     .read = read_gemma},
    {.name = "kimi",
     .syntax = TOOLS_KIMI,
     .marks = {"<|tool_calls_section_begin|>"},
     .begin = "<|tool_calls_section_begin|>",
     .tokens = {"<|tool_calls_section_begin|>", "<|tool_calls_section_end|>", "<|tool_call_begin|>",
                "<|tool_call_argument_begin|>", "<|tool_call_end|>"},
     .read = read_kimi},
    {.name = "deepseek",
     .syntax = TOOLS_DEEPSEEK,
     .marks = {"<｜tool▁calls▁begin｜>"},
     .begin = "<｜tool▁calls▁begin｜>",
     .tokens = {"<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>", "<｜tool▁call▁begin｜>",
                "<｜tool▁call▁end｜>", "<｜tool▁sep｜>"},
     .read = read_deepseek},
    {.name = "python",
     .syntax = TOOLS_PYTHON,
     .marks = {"<|tool_call_start|>"},
     .begin = "<|tool_call_start|>",
     .tokens = {"<|tool_call_start|>", "<|tool_call_end|>"},
     .read = read_python},
    {.name = "python",
     .syntax = TOOLS_PYTHON,
     .marks = {"<|tool_list_start|>"},
     .begin = "<|tool_call_start|>",
     .tokens = {"<|tool_call_start|>", "<|tool_call_end|>"},
     .read = read_python},
    {.name = "mistral",
     .syntax = TOOLS_MISTRAL,
     .marks = {"[TOOL_CALLS]"},
     .begin = "[TOOL_CALLS]",
     .tokens = {"[TOOL_CALLS]", "[ARGS]", "[CALL_ID]"},
     .read = read_mistral},
    {.name = "argument tags",
     .syntax = TOOLS_ARGUMENT_TAGS,
     .marks = {"<tool_call>", "<arg_key>"},
     .begin = "<tool_call>",
     .tokens = {"<tool_call>", "</tool_call>", "<arg_key>", "</arg_key>", "<arg_value>",
                "</arg_value>"},
     .read = read_argument_tags},
    {.name = "function tags",
     .syntax = TOOLS_FUNCTION_TAGS,
     .marks = {"<tool_call>", "<function="},
     .begin = "<tool_call>",
     .tokens = {"<tool_call>", "</tool_call>"},
     .read = read_function_tags},
    {.name = "listed JSON",
     .syntax = TOOLS_LISTED,
     .marks = {"<tool_calls>", "arguments\""},
     .begin = "<tool_calls>",
     .tokens = {"<tool_calls>", "</tool_calls>"},
     .read = read_listed},
    {.name = "tagged JSON",
     .syntax = TOOLS_TAGGED,
     .marks = {"<tool_call>", "arguments\""},
     .begin = "<tool_call>",
     .tokens = {"<tool_call>", "</tool_call>"},
     .read = read_tagged},
    {.name = "JSON",
     .syntax = TOOLS_JSON,
     .marks = {"<|start_header_id|>", "\"parameters\""},
     .tokens = {"<|python_tag|>"},
     .read = read_object},
};

const ToolFormat *tool_format_find(const char *text, size_t length) {
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        bool has_all = true;
        for (size_t k = 0; formats[i].marks[k] && has_all; k++)
            has_all = memmem(text, length, formats[i].marks[k], strlen(formats[i].marks[k]));
        if (has_all) return &formats[i];
    }
    return NULL;
}

json_t *tool_calls_read(const ToolFormat *format, const char *text, size_t length,
                        const json_t *tools) {
    Cursor c = {text, text + length};
    ToolCallList list = {json_array(), json_digits_new()};
    bool is_whole = list.calls && list.digits;
    for (cursor_skip_space(&c); is_whole && c.at < c.end; cursor_skip_space(&c)) {
        size_t n = json_array_size(list.calls);
        is_whole = format->read(&c, tools, &list);
        for (; is_whole && n < json_array_size(list.calls); n++)
            is_whole = tool_is_known(
                tools, json_string_value(json_object_get(json_array_get(list.calls, n), "name")));
    }
    json_digits_free(list.digits);
    if (is_whole && json_array_size(list.calls) > 0) return list.calls;
    json_decref(list.calls);
    return NULL;
}
