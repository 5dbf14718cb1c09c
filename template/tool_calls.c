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

/* ---- By a form's texts ---- */

/* Takes `text` (NULL: nothing) with any white space before it and before its tags and brackets. */
static bool take_mark(Cursor *c, const char *text) {
    Cursor at = *c;
    cursor_skip_space(&at);
    for (const char *p = text ? text : ""; *p; p++) {
        if (strchr(" \n<[]", *p)) cursor_skip_space(&at);
        if (*p == ' ' || *p == '\n') continue;
        if (at.at == at.end || *at.at != *p) return false;
        at.at++;
    }
    *c = at;
    return true;
}

/* Takes a call's name and what follows it before the arguments. It ends where the text after it
 * begins, before any arguments; where that is white space, at a tag. */
static bool take_name(Cursor *c, const ToolForm *form, const char **name, size_t *length) {
    const char *number = strstr(form->after_name, TOOL_NUMBER);
    const char *end = number ? number + strlen(TOOL_NUMBER) : form->after_name;
    const char *object = memchr(c->at, '{', cursor_left(c));
    char stop[64];
    *length = strlen(end);
    trim(&end, length);
    snprintf(stop, sizeof stop, "%.*s", (int)*length, end);
    *name = c->at;
    if (*stop) {
        if (!take_until(c, stop, name, length)) return false;
    } else {
        const char *tag = memchr(c->at, '<', cursor_left(c));
        if (!tag) return false;
        *length = (size_t)(tag - c->at);
        c->at = tag;
    }
    if (object && object < *name + *length) return false;
    trim(name, length);
    const char *id = form->id ? memmem(*name, *length, form->id, strlen(form->id)) : NULL;
    if (number) id = memrchr(*name, form->after_name[0], *length);
    if (id) *length = (size_t)(id - *name);
    trim(name, length);
    size_t n = form->prefix ? strlen(form->prefix) : 0;
    if (n > 0 && *length > n && memcmp(*name, form->prefix, n) == 0) *name += n, *length -= n;
    return true;
}

/* Whether a call of this form begins here. No JSON is read. */
static bool begins_here(Cursor c, const ToolForm *form) {
    const char *name;
    size_t length;
    bool opened = take_mark(&c, form->open);
    if ((form->is_list && !opened) || !take_mark(&c, form->before)) return false;
    if (!form->key) return take_name(&c, form, &name, &length);
    cursor_skip_space(&c);
    return c.at < c.end && *c.at == '{';
}

/* The arguments of a call whose parameters are written as plain text. */
typedef struct PlainArguments {
    const json_t *parameters; /* the schema of all of them */
    json_t *values;
    bool as_python;
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

/* Takes the arguments that the form writes one by one, and sets them. */
static bool take_arguments(Cursor *c, const ToolArguments *form, PlainArguments *arguments,
                           ToolCallList *list) {
    const char *rest = strchr(form->after_key, '>') + 1, *key, *value;
    char after_key[32];
    size_t key_length, length;
    bool in_lines = form->after[0] == '\n'; /* a newline stands on either side of the value */
    snprintf(after_key, sizeof after_key, "%.*s", (int)(rest - form->after_key), form->after_key);
    while (take_mark(c, form->before_key)) {
        if (!take_until(c, after_key, &key, &key_length) ||
            (strchr(rest, '<') && !take_mark(c, rest)) ||
            !take_until(c, form->stop, &value, &length))
            return false;
        if (in_lines && length > 0 && value[0] == '\n') value++, length--;
        if (in_lines && length > 0 && value[length - 1] == '\n') length--;
        if (!set_argument(arguments, list, key, key_length, value, length)) return false;
    }
    return true;
}

/* Takes one call between what stands before and after it. */
static bool take_call(Cursor *c, const ToolForm *form, const json_t *tools, ToolCallList *list) {
    const char *name;
    size_t length;
    bool is_call;
    if (!take_mark(c, form->before)) return false;
    if (form->key) {
        json_t *object = take_json(c, list);
        is_call = json_is_object(object) && add_object(list, object);
        json_decref(object);
    } else if (!take_name(c, form, &name, &length)) {
        return false;
    } else if (form->arguments) {
        PlainArguments arguments = {tool_parameters(tools, name, length), json_object(),
                                    form->arguments->as_python};
        is_call = arguments.values && take_arguments(c, form->arguments, &arguments, list) &&
                  add_call(list, name, length, json_incref(arguments.values));
        json_decref(arguments.values);
    } else {
        is_call = add_call(list, name, length, take_json(c, list));
    }
    return is_call && take_mark(c, form->after);
}

static bool read_by_forms(const ToolForm *form, Cursor *c, const json_t *tools,
                          ToolCallList *list) {
    while (!begins_here(*c, form))
        if (!form++->when) return false;
    take_mark(c, form->open);
    for (;;) {
        if (!take_call(c, form, tools, list)) return false;
        bool closed = take_mark(c, form->close);
        if (!form->is_list || closed) return true;
        if (!take_mark(c, form->between)) return false;
    }
}

/* ---- Formats that are read in their own way ---- */

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

/* ---- The formats ---- */

static const ToolForm tagged[] = {{
    .before = "<tool_call>\n",
    .key = "arguments",
    .after = "\n</tool_call>",
    .between = "\n",
}};

static const ToolForm listed[] = {
    {.when = "<tool_calls>[",
     .open = "<tool_calls>[",
     .key = "arguments",
     .between = ", ",
     .close = "]</tool_calls>",
     .is_list = true},
    {.open = "<tool_calls>\n",
     .key = "arguments",
     .after = "\n",
     .close = "</tool_calls>",
     .is_list = true},
};

static const ToolForm object[] = {{.key = "parameters"}};

static const ToolForm mistral[] = {
    {.when = "[ARGS]", .before = "[TOOL_CALLS]", .after_name = "[ARGS]", .id = "[CALL_ID]"},
    {.open = "[TOOL_CALLS][", .key = "arguments", .between = ", ", .close = "]", .is_list = true},
};

/* V3 and R1, whose arguments are a block of code, and V3.1, where they follow the name at once. */
static const ToolForm deepseek[] = {
    {.when = "```json",
     .open = "<｜tool▁calls▁begin｜>",
     .before = "<｜tool▁call▁begin｜>function<｜tool▁sep｜>",
     .after_name = "\n```json\n",
     .after = "\n```<｜tool▁call▁end｜>",
     .between = "\n",
     .close = "<｜tool▁calls▁end｜>"},
    {.open = "<｜tool▁calls▁begin｜>",
     .before = "<｜tool▁call▁begin｜>",
     .after_name = "<｜tool▁sep｜>",
     .after = "<｜tool▁call▁end｜>",
     .close = "<｜tool▁calls▁end｜>"},
};

static const ToolForm kimi[] = {{
    .open = "<|tool_calls_section_begin|>",
    .before = "<|tool_call_begin|>",
    .prefix = "functions.",
    .after_name = ":" TOOL_NUMBER "<|tool_call_argument_begin|>",
    .after = "<|tool_call_end|>",
    .close = "<|tool_calls_section_end|>",
}};

static const ToolForm channel[] = {{
    .before = "<|channel|>commentary to=functions.",
    .after_name = " <|constrain|>json<|message|>",
    .after = "<|call|>",
}};

static const ToolArguments parameter = {
    .before_key = "<parameter=",
    .after_key = ">\n",
    .after = "\n</parameter>\n",
    .stop = "</parameter>",
    .as_python = true,
};
static const ToolForm function_tags[] = {{
    .before = "<tool_call>\n<function=",
    .after_name = ">\n",
    .arguments = &parameter,
    .after = "</function>\n</tool_call>",
    .between = "\n",
}};

static const ToolArguments pair = {
    .before_key = "<arg_key>",
    .after_key = "</arg_key>\n<arg_value>",
    .after = "</arg_value>\n",
    .stop = "</arg_value>",
};
static const ToolArguments pair_tight = {
    .before_key = "<arg_key>",
    .after_key = "</arg_key><arg_value>",
    .after = "</arg_value>",
    .stop = "</arg_value>",
};
static const ToolForm argument_tags[] = {
    {.when = "</arg_key><arg_value>",
     .before = "<tool_call>",
     .after_name = "",
     .arguments = &pair_tight,
     .after = "</tool_call>"},
    {.before = "<tool_call>",
     .after_name = "\n",
     .arguments = &pair,
     .after = "</tool_call>",
     .between = "\n"},
};

/* In the order in which they are looked for: the more particular marks first. */
static const ToolFormat formats[] = {
    {.name = "channels",
     .forms = channel,
     .one_call = true, /* the call ends the answer */
     .marks = {"<|channel|>", "functions."},
     .begin = "<|channel|>",
     .tokens = {"<|call|>"},
     .read = read_channel},
    {.name = "gemma",
     .marks = {"<|tool_call>call:"},
     .begin = "<|tool_call>",
     .tokens = {"<|tool_call>", "<tool_call|>", "<|\"|>"},
     .read = read_gemma},
    {.name = "kimi",
     .forms = kimi,
     .writes_ids = true,
     .marks = {"<|tool_calls_section_begin|>"},
     .begin = "<|tool_calls_section_begin|>",
     .tokens = {"<|tool_calls_section_begin|>", "<|tool_calls_section_end|>", "<|tool_call_begin|>",
                "<|tool_call_argument_begin|>", "<|tool_call_end|>"}},
    {.name = "deepseek",
     .forms = deepseek,
     .marks = {"<｜tool▁calls▁begin｜>"},
     .begin = "<｜tool▁calls▁begin｜>",
     .tokens = {"<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>", "<｜tool▁call▁begin｜>",
                "<｜tool▁call▁end｜>", "<｜tool▁sep｜>"}},
    {.name = "python",
     .marks = {"<|tool_call_start|>"},
     .begin = "<|tool_call_start|>",
     .tokens = {"<|tool_call_start|>", "<|tool_call_end|>"},
     .read = read_python},
    {.name = "python",
     .marks = {"<|tool_list_start|>"},
     .begin = "<|tool_call_start|>",
     .tokens = {"<|tool_call_start|>", "<|tool_call_end|>"},
     .read = read_python},
    {.name = "mistral",
     .forms = mistral,
     .marks = {"[TOOL_CALLS]"},
     .begin = "[TOOL_CALLS]",
     .tokens = {"[TOOL_CALLS]", "[ARGS]", "[CALL_ID]"}},
    {.name = "argument tags",
     .forms = argument_tags,
     .marks = {"<tool_call>", "<arg_key>"},
     .begin = "<tool_call>",
     .tokens = {"<tool_call>", "</tool_call>", "<arg_key>", "</arg_key>", "<arg_value>",
                "</arg_value>"}},
    {.name = "function tags",
     .forms = function_tags,
     .marks = {"<tool_call>", "<function="},
     .begin = "<tool_call>",
     .tokens = {"<tool_call>", "</tool_call>"}},
    {.name = "listed JSON",
     .forms = listed,
     .marks = {"<tool_calls>", "arguments\""},
     .begin = "<tool_calls>",
     .tokens = {"<tool_calls>", "</tool_calls>"}},
    {.name = "tagged JSON",
     .forms = tagged,
     .marks = {"<tool_call>", "arguments\""},
     .begin = "<tool_call>",
     .tokens = {"<tool_call>", "</tool_call>"}},
    {.name = "JSON",
     .forms = object,
     .one_call = true, /* its templates take no more */
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
        is_whole = format->read ? format->read(&c, tools, &list)
                                : read_by_forms(format->forms, &c, tools, &list);
        for (; is_whole && n < json_array_size(list.calls); n++)
            is_whole = tool_is_known(
                tools, json_string_value(json_object_get(json_array_get(list.calls, n), "name")));
    }
    json_digits_free(list.digits);
    if (is_whole && json_array_size(list.calls) > 0) return list.calls;
    json_decref(list.calls);
    return NULL;
}
