#include "template/message_forms.h"

#include <stdlib.h>
#include <string.h>

#include "json/json_digits.h"
#include "json/json_reader.h"

/* ---- How a template wants calls ------------------------------------------------------------
 */

static bool wants_objects(CallStyle style) {
    return style == CALLS_OF_OBJECTS || style == CALLS_OF_OBJECTS_ALONE;
}

static bool wants_null(CallStyle style) {
    return style == CALLS_OF_OBJECTS_ALONE || style == CALLS_OF_TEXTS_ALONE;
}

/* Makes a template's variables: `variables` with a conversation that has a call in this style. */
static json_t *probe_variables(const json_t *variables, CallStyle style) {
    json_t *arguments = wants_objects(style)
                            ? json_pack("{s:s}", "verbatim_key", "verbatim_value")
                            : json_string("{\"verbatim_key\": \"verbatim_value\"}");
    json_t *content = wants_null(style) ? json_null() : json_string("");
    json_t *all = json_deep_copy(variables);
    json_t *messages = json_pack(
        "[{s:s, s:s}, {s:s, s:o, s:[{s:s, s:s, s:{s:s, s:o}}]}, {s:s, s:s, s:s, s:s}]", "role",
        "user", "content", "a", "role", "assistant", "content", content, "tool_calls", "id",
        "abcdefghi", "type", "function", "function", "name", "f", "arguments", arguments, "role",
        "tool", "tool_call_id", "abcdefghi", "name", "f", "content", "b");
    json_t *tools =
        json_pack("[{s:s, s:{s:s, s:s, s:{s:s, s:{s:{s:s, s:s}}}}}]", "type", "function",
                  "function", "name", "f", "description", "c", "parameters", "type", "object",
                  "properties", "key", "type", "string", "description", "d");
    bool made = all && json_object_set_new(all, "messages", messages) == 0 &&
                json_object_set_new(all, "tools", tools) == 0;
    if (made) return all;
    json_decref(all);
    return NULL;
}

/* Whether the template writes the call's arguments, and as what they are: no text within quotes,
 * and no object as Python prints it. */
static bool reads_well(const ChatTemplate *template, const json_t *variables, struct tm now,
                       CallStyle style) {
    json_t *all = probe_variables(variables, style);
    const ChatTemplateInput input = {.variables = all, .now = now};
    ChatTemplateOutput out;
    bool reads = false;
    Error ignored;
    if (all && chat_template_render(template, &input, &out, &ignored) == STATUS_OK) {
        reads = strstr(out.text, "verbatim_value") && !strstr(out.text, "'verbatim_key'") &&
                !strstr(out.text, "\\\"verbatim_value");
        chat_template_output_free(&out);
    }
    json_decref(all);
    return reads;
}

CallStyle messages_call_style(const ChatTemplate *template, const json_t *variables,
                              struct tm now) {
    static const CallStyle styles[] = {CALLS_OF_OBJECTS, CALLS_OF_TEXTS, CALLS_OF_OBJECTS_ALONE,
                                       CALLS_OF_TEXTS_ALONE};
    for (size_t i = 0; i < sizeof styles / sizeof *styles; i++)
        if (reads_well(template, variables, now, styles[i])) return styles[i];
    return CALLS_AS_GIVEN;
}

/* ---- Messages ----------------------------------------------------------------------------------
 */

/* How arguments are converted. */
typedef struct Conversion {
    CallStyle style;
    const JsonDigits *given; /* digits of the messages' numbers */
    JsonDigits *made;        /* gets the digits of numbers that were in texts */
} Conversion;

/* Converts a call's arguments to a JSON object or to its text, as the template wants them. What
 * cannot be converted stays as it is. Returns a new reference. */
static json_t *prepare_arguments(json_t *given, const Conversion *c) {
    json_t *made = NULL;
    if (wants_objects(c->style) && json_is_string(given)) {
        made = json_reader_load_digits(json_string_value(given), json_string_length(given),
                                       JSON_ALLOW_NUL | JSON_READER_LONE_SURROGATES, c->made, NULL);
        if (!json_is_object(made)) {
            json_decref(made);
            made = NULL;
        }
    } else if (!wants_objects(c->style) && json_is_object(given)) {
        char *text = json_digits_dumps(given, c->given, JSON_REAL_PRECISION(17));
        made = text ? json_string(text) : NULL;
        free(text);
    }
    return made ? made : json_incref(given);
}

/* Copies a call with its arguments as the template wants them. The call is {"function": {"name",
 * "arguments"}} or without that wrapper. Returns a new reference. */
static json_t *prepare_call(const json_t *call, const Conversion *c) {
    json_t *copy = json_copy((json_t *)call), *function = json_object_get(call, "function");
    json_t *given = json_object_get(function ? function : call, "arguments");
    if (!copy || !given) return copy;
    json_t *arguments = prepare_arguments(given, c);
    if (function) {
        json_t *inner = json_copy(function);
        json_object_set_new(inner, "arguments", arguments);
        json_object_set_new(copy, "function", inner);
    } else {
        json_object_set_new(copy, "arguments", arguments);
    }
    return copy;
}

/* Whether a message says nothing beside its calls. */
static bool is_alone(const json_t *message) {
    const json_t *content = json_object_get(message, "content");
    return !content || json_is_null(content) ||
           (json_is_string(content) && json_string_length(content) == 0);
}

static void prepare_calls(json_t *message, const Conversion *c) {
    json_t *calls = json_object_get(message, "tool_calls"), *list, *call;
    size_t i;
    if (json_array_size(calls) == 0) return;
    list = json_array();
    json_array_foreach(calls, i, call) {
        json_array_append_new(list,
                              json_is_object(call) ? prepare_call(call, c) : json_incref(call));
    }
    json_object_set_new(message, "tool_calls", list);
    if (is_alone(message))
        json_object_set_new(message, "content",
                            wants_null(c->style) ? json_null() : json_string(""));
}

/* The message with all names of its reasoning: a new reference. */
static json_t *name_reasoning(const json_t *message) {
    static const char *const names[] = {"reasoning_content", "thinking", "reasoning"};
    json_t *reasoning = NULL, *copy = json_object();
    for (size_t i = 0; i < sizeof names / sizeof *names && !reasoning; i++) {
        json_t *value = json_object_get(message, names[i]);
        if (value && !json_is_null(value)) reasoning = value;
    }
    if (reasoning) json_object_set(copy, "thinking", reasoning);
    json_object_update(copy, (json_t *)message);
    if (reasoning) json_object_set(copy, "reasoning_content", reasoning);
    return copy;
}

json_t *messages_prepare(const json_t *messages, CallStyle style, const JsonDigits *given,
                         JsonDigits *made) {
    const Conversion conversion = {style, given, made};
    json_t *list = json_array(), *message;
    size_t i;
    json_array_foreach((json_t *)messages, i, message) {
        json_t *copy = json_is_object(message) ? name_reasoning(message) : json_incref(message);
        if (style != CALLS_AS_GIVEN && json_is_object(copy)) prepare_calls(copy, &conversion);
        json_array_append_new(list, copy);
    }
    if (json_array_size(list) == json_array_size(messages)) return list;
    json_decref(list);
    return NULL;
}
