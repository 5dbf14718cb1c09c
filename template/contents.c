#include "template/contents.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"

static const char probe[] = "Xprobe7";

/* Whether the prompt of these messages (a new reference) shows the probe, and not as part of a
 * printed list, where a quote stands before it. */
static bool shows_probe(MessagesRenderer render, void *context, json_t *messages, bool *fails) {
    char *text = messages ? render(context, messages) : NULL;
    const char *at = text ? strstr(text, probe) : NULL;
    bool shows = at && !(at > text && (at[-1] == '\'' || at[-1] == '"'));
    *fails = text == NULL;
    free(text);
    json_decref(messages);
    return shows;
}

/* Finds out what the template does with contents, by rendering short conversations and looking for
 * a probe word: as a text, in a list of parts, in a system message and in a tool's result. */
ContentForms contents_probe(MessagesRenderer render, void *context) {
    ContentForms forms = {.text = true};
    bool fails;
    bool text = shows_probe(render, context,
                            json_pack("[{s:s, s:s}]", "role", "user", "content", probe), &fails);
    forms.parts = shows_probe(render, context,
                              json_pack("[{s:s, s:[{s:s, s:s}]}]", "role", "user", "content",
                                        "type", "text", "text", probe),
                              &fails);
    forms.text = text || !forms.parts;
    bool system = shows_probe(render, context,
                              json_pack("[{s:s, s:s}, {s:s, s:s}]", "role", "system", "content",
                                        probe, "role", "user", "content", "x"),
                              &fails);
    forms.omits_system = text && !system && !fails;
    forms.shows_results = shows_probe(
        render, context,
        json_pack("[{s:s, s:s}, {s:s, s:s, s:[{s:s, s:s, s:{s:s, s:{}}}]}, "
                  "{s:s, s:s, s:s, s:s}]",
                  "role", "user", "content", "x", "role", "assistant", "content", "", "tool_calls",
                  "id", "abcdefghi", "type", "function", "function", "name", "f", "arguments",
                  "role", "tool", "tool_call_id", "abcdefghi", "name", "f", "content", probe),
        &fails);
    return forms;
}

/* The text of a part; NULL: it holds something else. */
static const json_t *text_of_part(const json_t *part) {
    const char *type = json_string_value(json_object_get(part, "type"));
    if (json_is_string(part)) return part;
    const json_t *text = json_object_get(part, "text");
    return type && strcmp(type, "text") == 0 && json_is_string(text) ? text : NULL;
}

/* The texts of a list joined by newlines; NULL: a part is not a text, or there is no memory
 * (*failed). */
static json_t *contents_join(const json_t *parts, bool *failed) {
    TextBuffer joined = {0};
    size_t i;
    json_t *part;
    json_array_foreach((json_t *)parts, i, part) {
        const json_t *text = text_of_part(part);
        if (!text) {
            text_free(&joined);
            return NULL;
        }
        if (i > 0) text_put(&joined, "\n", 1, 0);
        text_put(&joined, json_string_value(text), json_string_length(text), 0);
    }
    json_t *json =
        joined.failed ? NULL : json_stringn(joined.length ? joined.bytes : "", joined.length);
    *failed = json == NULL;
    text_free(&joined);
    return json;
}

/* The content in the template's form, a new reference; NULL: it stays as it is, or no memory. */
static json_t *content_in_form(const json_t *message, ContentForms forms, bool *failed) {
    const json_t *content = json_object_get(message, "content");
    json_t *changed = NULL;
    if (json_is_array(content)) return forms.parts ? NULL : contents_join(content, failed);
    if (json_is_string(content) && forms.text) return NULL;
    if (json_is_string(content)) {
        changed = json_pack("[{s:s, s:O}]", "type", "text", "text", content);
    } else if (json_is_null(content) || (!content && json_object_get(message, "tool_calls"))) {
        changed = json_string("");
    } else {
        return NULL;
    }
    *failed = changed == NULL;
    return changed;
}

json_t *contents_in_form(const json_t *messages, ContentForms forms) {
    json_t *list = json_array(), *message;
    size_t i;
    json_array_foreach((json_t *)messages, i, message) {
        bool failed = false;
        json_t *content = content_in_form(message, forms, &failed);
        json_t *copy = content ? json_copy(message) : json_incref(message);
        if (content) failed = !copy || json_object_set_new(copy, "content", content) != 0;
        if (failed) json_decref(copy);
        if (failed || json_array_append_new(list, copy) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}
