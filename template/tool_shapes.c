#include "template/tool_shapes.h"

#include <stdio.h>
#include <string.h>

#include "template/tool_values.h"

typedef struct Maker {
    const ToolShapes *shapes;
    ElementWriter *writer;
    const ToolForm *form;
    Error *error;
} Maker;

/* Chooses the form of calls. Templates differ in a format's details, which is told by what the
 * template holds. Fails for a format that cannot be enforced. */
static Status choose_form(Maker *m) {
    const ToolShapes *s = m->shapes;
    m->form = s->format->forms;
    if (!m->form)
        return error_set(m->error,
                         "calls of tools in the format '%s' can be read, but not enforced: only "
                         "'tool_choice' \"auto\" without \"strict\" and \"none\" are possible",
                         s->format->name);
    while (m->form->when && !memmem(s->text, s->length, m->form->when, strlen(m->form->when)))
        m->form++;
    return STATUS_OK;
}

/* ---- Arguments ------------------------------------------------------------------------------- */

/* Whether the arguments of a function must fit its schema. */
static bool is_enforced(const ToolShapes *s, const json_t *function) {
    const json_t *strict = json_object_get(function, "strict");
    return json_is_true(strict) || (s->required && !json_is_false(strict));
}

/* ["schema", SCHEMA, LABEL]; takes over the reference to the schema. */
static json_t *schema_element(Maker *m, json_t *schema, const char *function) {
    json_t *element = element_new(m->writer, "schema");
    element_add(m->writer, element, schema);
    element_add(m->writer, element, json_sprintf("the parameters of '%s'", function));
    return element;
}

/* Makes the element for arguments that are written as one JSON object. Enforced, the object fits
 * the schema `parameters` (NULL: it is empty); else it is any object. */
static Status object_arguments(Maker *m, const char *name, const json_t *parameters, bool enforced,
                               json_t **out) {
    const json_t *type = json_object_get(parameters, "type");
    json_t *schema = enforced && parameters ? json_copy((json_t *)parameters) : json_object();
    const char *word = json_string_value(type);
    *out = schema_element(m, schema, name); /* holds `schema`, which is filled below */
    if (enforced && type && (!word || strcmp(word, "object") != 0))
        return error_set(m->error, "the parameters of '%s' are not of \"type\": \"object\"", name);
    if (json_object_set_new(schema, "type", json_string("object")) != 0) m->writer->failed = true;
    if (enforced && !parameters &&
        json_object_set_new(schema, "additionalProperties", json_false()))
        m->writer->failed = true;
    return STATUS_OK;
}

/* Refuses references that would mean something else in a parameter's own document. Each parameter
 * that is written as a tag gets a document of its own, in which only references to the definitions
 * mean the same. */
static Status check_references(Maker *m, const char *name, const json_t *value) {
    static const char *const known[] = {"#/$defs/", "#/definitions/"};
    const char *key, *to = json_string_value(json_object_get(value, "$ref"));
    json_t *part;
    size_t i;
    bool moves = to && (strcmp(to, "#") == 0 || strncmp(to, "#/", 2) == 0);
    for (i = 0; i < sizeof known / sizeof *known; i++)
        moves = moves && strncmp(to, known[i], strlen(known[i])) != 0;
    if (moves)
        return error_set(m->error,
                         "the parameters of '%s': '$ref' to '%.60s' cannot be enforced in calls of "
                         "the format '%s', but one to '#/$defs/...' can",
                         name, to, m->shapes->format->name);
    json_object_foreach((json_t *)value, key, part) {
        if (check_references(m, name, part) != STATUS_OK) return STATUS_FAILED;
    }
    json_array_foreach((json_t *)value, i, part) {
        if (check_references(m, name, part) != STATUS_OK) return STATUS_FAILED;
    }
    return STATUS_OK;
}

/* Refuses a schema of parameters with a keyword that is unknown here. The list has the keywords
 * that are allowed where a format writes arguments as tags. */
static Status check_parameters(Maker *m, const char *name, const json_t *parameters) {
    static const char *const known[] = {"type",
                                        "properties",
                                        "required",
                                        "title",
                                        "description",
                                        "$schema",
                                        "$defs",
                                        "definitions",
                                        "default",
                                        "examples",
                                        "$comment",
                                        "$id",
                                        "additionalProperties"};
    const char *key;
    json_t *value;
    size_t i;
    json_object_foreach((json_t *)parameters, key, value) {
        size_t n = sizeof known / sizeof *known;
        i = 0;
        while (i < n && strcmp(known[i], key) != 0) i++;
        if (i == n)
            return error_set(m->error,
                             "the parameters of '%s': '%.60s' cannot be enforced in calls of the "
                             "format '%s'",
                             name, key, m->shapes->format->name);
    }
    json_array_foreach(json_object_get(parameters, "required"), i, value) {
        const char *word = json_string_value(value);
        if (!word || !json_object_get(json_object_get(parameters, "properties"), word))
            return error_set(m->error,
                             "the parameters of '%s': 'required' names '%.60s', which 'properties' "
                             "does not have",
                             name, word ? word : "");
    }
    value = json_object_get(parameters, "properties");
    if (value && !json_is_object(value))
        return error_set(m->error, "the parameters of '%s': 'properties' must be an object", name);
    json_object_foreach(json_object_get(parameters, "properties"), key, value) {
        if (!json_is_object(value) && !json_is_boolean(value))
            return error_set(m->error, "the parameters of '%s': '%.60s' has no schema", name, key);
    }
    return check_references(m, name, parameters);
}

/* The names in `required`, as the keys of an object: a new reference; NULL: no memory. */
static json_t *required_names(const json_t *parameters) {
    json_t *names = json_object(), *value;
    size_t i;
    json_array_foreach(json_object_get(parameters, "required"), i, value) {
        if (json_object_set_new(names, json_string_value(value), json_true()) == 0) continue;
        json_decref(names);
        return NULL;
    }
    return names;
}

/* The schema of one parameter as a document of its own, with the definitions of the whole. */
static json_t *own_schema(Maker *m, const json_t *parameters, const json_t *schema) {
    static const char *const names[] = {"$defs", "definitions", "$schema"};
    json_t *own = json_is_object(schema)  ? json_copy((json_t *)schema)
                  : json_is_false(schema) ? json_pack("{s:{}}", "not")
                                          : json_object();
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        json_t *value = json_object_get(parameters, names[i]);
        if (value && json_object_set(own, names[i], value) != 0) m->writer->failed = true;
    }
    return own;
}

/* One argument: its key and its value. */
static Status add_argument(Maker *m, json_t *sequence, const char *name, const json_t *parameters,
                           const json_t *required, const char *key, const json_t *schema) {
    ElementWriter *w = m->writer;
    json_t *argument = element_new(w, "sequence"), *value;
    if (strpbrk(key, "<>\n") || !*key) {
        json_decref(argument);
        return error_set(m->error, "the parameters of '%s': the name '%.60s' cannot be enforced",
                         name, key);
    }
    element_add_marked(w, argument, m->form->arguments->before_key);
    element_add(w, argument, element_of_text(w, "text", key));
    element_add_marked(w, argument, m->form->arguments->after_key);
    if (tool_value_is_text(schema)) {
        value = element_new(w, "string");
        element_add(w, value, json_copy((json_t *)schema));
        element_add(w, value, json_string(m->form->arguments->stop));
    } else {
        value = schema_element(m, own_schema(m, parameters, schema), name);
    }
    element_add(w, argument, value);
    element_add_marked(w, argument, m->form->arguments->after);
    element_add(w, sequence,
                json_object_get(required, key) ? argument : element_repeat(w, argument, 0, 1));
    return STATUS_OK;
}

/* Any keys and values as tags. */
static json_t *any_tags(Maker *m) {
    ElementWriter *w = m->writer;
    json_t *argument = element_new(w, "sequence");
    element_add_marked(w, argument, m->form->arguments->before_key);
    element_add(w, argument, element_of_text(w, "regex", "[^<>\\n]{1,100}"));
    element_add_marked(w, argument, m->form->arguments->after_key);
    element_add(w, argument, element_of_text(w, "free", m->form->arguments->stop));
    element_add_marked(w, argument, m->form->arguments->after);
    return element_repeat(w, argument, 0, -1);
}

/* Makes the element of arguments that are written as a tag each, in the order of the schema; those
 * that are not required may be left out. Unless `enforced`, any tags may come. */
static Status tag_arguments(Maker *m, const char *name, const json_t *parameters, bool enforced,
                            json_t **out) {
    Status status = STATUS_OK;
    const char *key;
    json_t *schema;
    if (!enforced) {
        *out = any_tags(m);
        return STATUS_OK;
    }
    *out = element_new(m->writer, "sequence");
    element_add(m->writer, *out, element_of_text(m->writer, "text", ""));
    if (check_parameters(m, name, parameters) != STATUS_OK) return STATUS_FAILED;
    json_t *required = required_names(parameters);
    if (!required) m->writer->failed = true;
    json_object_foreach(json_object_get(parameters, "properties"), key, schema) {
        status = add_argument(m, *out, name, parameters, required, key, schema);
        if (status != STATUS_OK) break;
    }
    json_decref(required);
    return status;
}

/* ---- Calls ----------------------------------------------------------------------------------- */

/* Adds two texts of the format as one; NULL: none. */
static void add_joined(Maker *m, json_t *sequence, const char *a, const char *b) {
    char both[128];
    snprintf(both, sizeof both, "%s%s", a ? a : "", b ? b : "");
    element_add_marked(m->writer, sequence, both);
}

/* Adds what stands between a call's name and its arguments. */
static void add_after_name(Maker *m, json_t *sequence) {
    char text[64];
    const char *after = m->form->after_name, *number = after ? strstr(after, TOOL_NUMBER) : NULL;
    if (m->form->key) snprintf(text, sizeof text, "\", \"%s\": ", m->form->key);
    if (!number) {
        element_add_marked(m->writer, sequence, after ? after : text);
        return;
    }
    json_t *before = element_new(m->writer, "text");
    element_add(m->writer, before, json_stringn(after, (size_t)(number - after)));
    element_add(m->writer, sequence, before);
    element_add(m->writer, sequence, element_of_text(m->writer, "regex", "0|[1-9]\\d{0,2}"));
    element_add_marked(m->writer, sequence, number + strlen(TOOL_NUMBER));
}

/* Whether the name needs no escapes in any format. */
static bool is_plain_name(const char *name) {
    return *name && !name[strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                       "0123456789_-.:/")];
}

/* Adds the shape of a call of one function: from its name to the end of the call. */
static Status add_function(Maker *m, json_t *choice, const json_t *function) {
    const char *name = json_string_value(json_object_get(function, "name"));
    const json_t *parameters = json_object_get(function, "parameters");
    bool enforced = is_enforced(m->shapes, function);
    json_t *sequence, *arguments = NULL;
    if (!name || !is_plain_name(name))
        return error_set(m->error,
                         "'tools': the name '%.60s' is not made of letters, digits and _-.:/",
                         name ? name : "");
    if (json_is_null(parameters)) parameters = NULL;
    if (parameters && !json_is_object(parameters))
        return error_set(m->error, "the parameters of '%s' are not an object", name);
    Status status = m->form->arguments
                        ? tag_arguments(m, name, parameters, enforced, &arguments)
                        : object_arguments(m, name, parameters, enforced, &arguments);
    if (status != STATUS_OK) {
        json_decref(arguments);
        return status;
    }
    sequence = element_new(m->writer, "sequence");
    element_add(m->writer, sequence, element_of_text(m->writer, "text", name));
    add_after_name(m, sequence);
    element_add(m->writer, sequence, arguments);
    add_joined(m, sequence, m->form->key ? "}" : NULL, m->form->after);
    element_add(m->writer, choice, sequence);
    return STATUS_OK;
}

/* One call of any of the functions. */
static Status one_call(Maker *m, json_t **out) {
    const ToolShapes *s = m->shapes;
    json_t *choice = element_new(m->writer, "choice"), *tool;
    size_t i;
    *out = element_new(m->writer, "sequence");
    add_joined(m, *out, m->form->before, m->form->key ? "{\"name\": \"" : m->form->prefix);
    element_add(m->writer, *out, choice);
    json_array_foreach((json_t *)s->tools, i, tool) {
        const json_t *function = tool_function(tool);
        const char *name = json_string_value(json_object_get(function, "name"));
        if (s->function && (!name || strcmp(name, s->function) != 0)) continue;
        if (add_function(m, choice, function) != STATUS_OK) return STATUS_FAILED;
    }
    if (json_array_size(choice) > 1) return STATUS_OK;
    return error_set(m->error, "'tool_choice': there is no tool '%.60s'",
                     s->function ? s->function : "");
}

Status tool_shapes_calls(const ToolShapes *shapes, ElementWriter *writer, json_t **out,
                         Error *error) {
    Maker m = {.shapes = shapes, .writer = writer, .error = error};
    bool one_only = shapes->one_call || shapes->format->one_call;
    json_t *call = NULL;
    *out = NULL;
    if (choose_form(&m) != STATUS_OK) return STATUS_FAILED;
    if (one_call(&m, &call) != STATUS_OK) {
        json_decref(call);
        return STATUS_FAILED;
    }
    *out = element_new(writer, "sequence");
    add_joined(&m, *out, m.form->open, NULL);
    element_add(writer, *out, json_incref(call));
    if (!one_only) {
        json_t *more = element_new(writer, "sequence");
        add_joined(&m, more, m.form->between, NULL);
        element_add(writer, more, call);
        element_add(writer, *out, element_repeat(writer, more, 0, -1));
    } else {
        json_decref(call);
    }
    add_joined(&m, *out, m.form->close, NULL);
    return STATUS_OK;
}

bool tool_shapes_strict(const json_t *tools) {
    size_t i;
    json_t *tool;
    json_array_foreach((json_t *)tools, i, tool) {
        if (json_is_true(json_object_get(tool_function(tool), "strict"))) return true;
    }
    return false;
}
