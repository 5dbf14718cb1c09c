#include "modes/batch/request_shape.h"

#include <stdlib.h>
#include <string.h>

#include "json/json_digits.h"
#include "json/json_reader.h"

static Status shape_give(RequestShape *s, ShapeKind kind, char *text, size_t length, Error *error) {
    if (s->given) {
        free(text);
        return error_set(error, "the shape of the answer is given twice");
    }
    if (!text) return error_set(error, "no memory for a request");
    s->given = true;
    s->source = (ShapeSource){.kind = kind, .text = text, .length = length};
    s->text = text;
    return STATUS_OK;
}

/* Sets the shape from a JSON value of a request: a schema, an expression, a grammar or choices.
 * `name` is for errors. */
static Status set_from_value(RequestShape *s, ShapeKind kind, const char *name, const json_t *value,
                             const JsonDigits *digits, Error *error) {
    bool is_text = kind == SHAPE_REGEX || kind == SHAPE_GRAMMAR ||
                   (kind == SHAPE_JSON_SCHEMA && json_is_string(value));
    if (is_text && !json_is_string(value)) return error_set(error, "'%s' must be a text", name);
    if (kind == SHAPE_CHOICE && !json_is_array(value))
        return error_set(error, "'%s' must be a list of texts", name);
    if (!is_text) {
        char *text = json_digits_dumps(value, digits, JSON_COMPACT);
        return shape_give(s, kind, text, text ? strlen(text) : 0, error);
    }
    size_t length = json_string_length(value);
    char *text = malloc(length + 1);
    if (text) memcpy(text, json_string_value(value), length + 1);
    return shape_give(s, kind, text, length, error);
}

/* Sets the shape to any JSON object. */
static Status set_any_object(RequestShape *s, Error *error) {
    return shape_give(s, SHAPE_JSON_OBJECT, strdup(""), 0, error);
}

/* {"type": "json_object", "schema": SCHEMA} is llama.cpp's form of a schema. There {} means any
 * object, as no schema does. */
static Status set_object(RequestShape *s, const json_t *schema, const JsonDigits *digits,
                         Error *error) {
    if (!schema || json_is_null(schema)) return set_any_object(s, error);
    if (!json_is_object(schema))
        return error_set(error, "'response_format': 'schema' must be an object");
    if (json_object_size(schema) == 0) return set_any_object(s, error);
    return set_from_value(s, SHAPE_JSON_SCHEMA, "schema", schema, digits, error);
}

/* Refuses a field that would be ignored: any that is not in `known`, which ends with NULL. */
static Status only_known(const json_t *object, const char *const *known, Error *error) {
    const char *name;
    json_t *item;
    json_object_foreach((json_t *)object, name, item) {
        size_t i = 0;
        while (known[i] && strcmp(known[i], name) != 0) i++;
        if (!known[i] && !json_is_null(item))
            return error_set(error, "'response_format': the field '%.80s' is not supported", name);
    }
    return STATUS_OK;
}

Status request_shape_format(RequestShape *s, const json_t *value, const JsonDigits *digits,
                            Error *error) {
    static const char *const fields[] = {"type", "json_schema", NULL};
    static const char *const of_object[] = {"type", "schema", NULL};
    static const char *const of_text[] = {"type", NULL};
    static const char *const known[] = {"name", "description", "schema", "strict", NULL};
    const char *type = json_reader_word(json_object_get(value, "type"));
    const json_t *inner = json_object_get(value, "json_schema");
    const json_t *schema = json_object_get(inner, "schema");
    bool text = type && strcmp(type, "text") == 0;
    bool object = type && strcmp(type, "json_object") == 0;
    if (!text && !object && (!type || strcmp(type, "json_schema") != 0))
        return error_set(error, "'response_format': 'type' must be \"text\", \"json_object\" or "
                                "\"json_schema\"");
    if (only_known(value, text ? of_text : object ? of_object : fields, error) != STATUS_OK)
        return STATUS_FAILED;
    if (text) return shape_give(s, SHAPE_NONE, strdup(""), 0, error);
    if (object) return set_object(s, json_object_get(value, "schema"), digits, error);
    if (only_known(inner, known, error) != STATUS_OK) return STATUS_FAILED;
    if (!json_is_object(schema))
        return error_set(error, "'response_format': 'json_schema' needs a 'schema'");
    return set_from_value(s, SHAPE_JSON_SCHEMA, "schema", schema, digits, error);
}

static const struct {
    const char *name;
    ShapeKind kind;
} kinds[] = {
    {"json", SHAPE_JSON_SCHEMA},        {"regex", SHAPE_REGEX},
    {"choice", SHAPE_CHOICE},           {"grammar", SHAPE_GRAMMAR},
    {"json_object", SHAPE_JSON_OBJECT},
};

/* Sets or clears a flag of JsonForm. */
static void set_form(RequestShape *s, unsigned flag, bool any) {
    s->form = any ? s->form | flag : s->form & ~flag;
    s->form_given |= flag;
}

Status request_shape_set_form(RequestShape *s, const char *name, const json_t *value,
                              Error *error) {
    bool order = strcmp(name, "json_order") == 0;
    const char *text = json_string_value(value), *strict = order ? "schema" : "line";
    if (!text || (strcmp(text, "any") != 0 && strcmp(text, strict) != 0))
        return error_set(error, "'%s' must be \"%s\" or \"any\"", name, strict);
    set_form(s, order ? JSON_ANY_ORDER : JSON_ANY_SPACE, strcmp(text, "any") == 0);
    return STATUS_OK;
}

unsigned request_shape_form(const RequestShape *s, unsigned usual) {
    return (usual & ~s->form_given) | s->form;
}

/* Takes the shape that an object like vLLM's structured_outputs names. A field that is null, or a
 * switch that is false, counts as absent. */
Status request_shape_structured(RequestShape *s, const json_t *value, const JsonDigits *digits,
                                Error *error) {
    const char *name;
    json_t *item;
    if (!json_is_object(value)) return error_set(error, "'structured_outputs' must be an object");
    json_object_foreach((json_t *)value, name, item) {
        size_t i = 0, n = sizeof kinds / sizeof *kinds;
        while (i < n && strcmp(kinds[i].name, name) != 0) i++;
        bool is_switch = i == n || kinds[i].kind == SHAPE_JSON_OBJECT;
        /* A switch that is off says nothing, but false as a schema holds for no text. */
        if (json_is_null(item) || (is_switch && json_is_false(item))) continue;
        if (strcmp(name, "disable_any_whitespace") == 0 && json_is_true(item)) { /* vLLM's */
            set_form(s, JSON_ANY_SPACE, false);
            continue;
        }
        if (i == n)
            return error_set(error, "'structured_outputs': the field '%.80s' is not supported",
                             name);
        Status status = kinds[i].kind == SHAPE_JSON_OBJECT
                            ? set_any_object(s, error)
                            : set_from_value(s, kinds[i].kind, name, item, digits, error);
        if (status != STATUS_OK) return status;
    }
    return STATUS_OK;
}

Status request_shape_option(RequestShape *s, const char *name, const json_t *value,
                            const JsonDigits *digits, Error *error) {
    if (strcmp(name, "json") == 0) {
        if (json_is_true(value)) return set_any_object(s, error);
        return json_is_false(value) ? STATUS_OK : error_set(error, "'json' must be true or false");
    }
    if (strcmp(name, "json_schema") == 0)
        return set_from_value(s, SHAPE_JSON_SCHEMA, name, value, digits, error);
    ShapeKind kind = strcmp(name, "regex") == 0     ? SHAPE_REGEX
                     : strcmp(name, "grammar") == 0 ? SHAPE_GRAMMAR
                                                    : SHAPE_CHOICE;
    return set_from_value(s, kind, name, value, digits, error);
}

void request_shape_free(RequestShape *s) {
    free(s->text);
    *s = (RequestShape){0};
}
