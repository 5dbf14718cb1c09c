#include "template/tool_values.h"

#include <string.h>

#include "json/json_reader.h"
#include "template/literal.h"

enum { MOST_LEVELS = 16 };

/* ---- Types ------------------------------------------------------------------------------------
 */

static unsigned type_named(const char *name) {
    static const struct {
        const char *name;
        unsigned type;
    } all[] = {{"null", TOOL_VALUE_NULL},     {"boolean", TOOL_VALUE_BOOLEAN},
               {"number", TOOL_VALUE_NUMBER}, {"integer", TOOL_VALUE_NUMBER},
               {"string", TOOL_VALUE_STRING}, {"array", TOOL_VALUE_ARRAY},
               {"object", TOOL_VALUE_OBJECT}};
    for (size_t i = 0; name && i < sizeof all / sizeof *all; i++)
        if (strcmp(all[i].name, name) == 0) return all[i].type;
    return TOOL_VALUE_ANY; /* a name that JSON Schema does not have says nothing */
}

static unsigned type_of(const json_t *value) {
    return json_is_null(value)      ? TOOL_VALUE_NULL
           : json_is_boolean(value) ? TOOL_VALUE_BOOLEAN
           : json_is_number(value)  ? TOOL_VALUE_NUMBER
           : json_is_string(value)  ? TOOL_VALUE_STRING
           : json_is_array(value)   ? TOOL_VALUE_ARRAY
                                    : TOOL_VALUE_OBJECT;
}

static unsigned named_types(const json_t *type) {
    unsigned types = 0;
    size_t i;
    json_t *item;
    if (!json_is_array(type)) return type ? type_named(json_reader_word(type)) : TOOL_VALUE_ANY;
    json_array_foreach((json_t *)type, i, item) {
        types |= type_named(json_reader_word(item));
    }
    return types;
}

static unsigned listed_types(const json_t *values) {
    unsigned types = 0;
    size_t i;
    json_t *item;
    if (!json_is_array(values)) return TOOL_VALUE_ANY;
    json_array_foreach((json_t *)values, i, item) {
        types |= type_of(item);
    }
    return types;
}

/* The definition that a schema refers to; NULL: none that is known here. */
static const json_t *definition(const json_t *schema, const json_t *parameters) {
    static const char *const places[] = {"$defs", "definitions"};
    const char *to = json_string_value(json_object_get(schema, "$ref"));
    for (size_t i = 0; to && i < sizeof places / sizeof *places; i++) {
        size_t n = strlen(places[i]);
        if (strncmp(to, "#/", 2) == 0 && strncmp(to + 2, places[i], n) == 0 && to[2 + n] == '/')
            return json_object_get(json_object_get(parameters, places[i]), to + 3 + n);
    }
    return NULL;
}

/* Returns the types (TOOL_VALUE_...) that the schema lets a value have. Anything that is not
 * understood allows all types; `level` stops circular references. */
static unsigned types_within(const json_t *schema, const json_t *parameters, int level) {
    static const char *const unions[] = {"anyOf", "oneOf"};
    const json_t *constant = json_object_get(schema, "const"), *list;
    json_t *item;
    size_t i;
    if (!json_is_object(schema) || level == MOST_LEVELS) return TOOL_VALUE_ANY;
    unsigned types = named_types(json_object_get(schema, "type"));
    if (json_is_true(json_object_get(schema, "nullable"))) types |= TOOL_VALUE_NULL; /* OpenAPI */
    types &= listed_types(json_object_get(schema, "enum"));
    if (constant) types &= type_of(constant);
    types &= types_within(definition(schema, parameters), parameters, level + 1);
    for (size_t k = 0; k < sizeof unions / sizeof *unions; k++) {
        unsigned any = 0;
        list = json_object_get(schema, unions[k]);
        json_array_foreach((json_t *)list, i, item) {
            any |= types_within(item, parameters, level + 1);
        }
        if (json_array_size(list) > 0) types &= any;
    }
    json_array_foreach(json_object_get(schema, "allOf"), i, item) {
        types &= types_within(item, parameters, level + 1);
    }
    return types;
}

unsigned tool_value_types(const json_t *schema, const json_t *parameters) {
    return types_within(schema, parameters, 0);
}

bool tool_value_is_text(const json_t *schema) {
    const json_t *type = json_object_get(schema, "type");
    const json_t *list = json_object_get(schema, "enum");
    if (json_is_true(json_object_get(schema, "nullable"))) return false;
    if (type) return named_types(type) == TOOL_VALUE_STRING;
    return list ? listed_types(list) == TOOL_VALUE_STRING
                : json_is_string(json_object_get(schema, "const"));
}

/* ---- Values -----------------------------------------------------------------------------------
 */

static bool is_word(const char *text, size_t length, const char *word) {
    return length == strlen(word) && memcmp(text, word, length) == 0;
}

/* True, False or None; NULL: none of them. */
static json_t *python_word(const char *text, size_t length) {
    if (is_word(text, length, "True")) return json_true();
    if (is_word(text, length, "False")) return json_false();
    return is_word(text, length, "None") ? json_null() : NULL;
}

/* A list or an object as Python prints it; NULL: it is none. */
static json_t *python_literal(const char *text, size_t length, JsonDigits *digits) {
    const char *at = text, *end = text + length;
    if (length == 0 || !strchr("[{", *text)) return NULL;
    json_t *value = literal_read(&at, end, &literal_python, digits);
    if (value && at == end) return value;
    json_decref(value);
    return NULL;
}

json_t *tool_value_read(const json_t *parameters, const char *key, const char *text, size_t length,
                        bool as_python, JsonDigits *digits) {
    const size_t flags = JSON_DECODE_ANY | JSON_ALLOW_NUL | JSON_READER_LONE_SURROGATES;
    const json_t *schema = json_object_get(json_object_get(parameters, "properties"), key);
    unsigned types = tool_value_types(schema, parameters);
    json_error_t where;
    if (tool_value_is_text(schema)) return json_stringn(text, length);
    bool may_be_text = types & TOOL_VALUE_STRING;
    json_t *value = json_reader_load_digits(text, length, flags, digits, &where);
    if (!value && (as_python || !may_be_text)) value = python_word(text, length);
    if (!value && !may_be_text) value = python_literal(text, length, digits);
    if (value && (!may_be_text || type_of(value) & types)) return value;
    json_decref(value);
    return json_stringn(text, length);
}
