#include "constraint/schema_negate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "constraint/schema_refs.h"

/* The alternatives that are being made; NULL once memory was short. */
static void negate_add(json_t **out, json_t *alternative) {
    if (*out && alternative && json_array_append_new(*out, alternative) == 0) return;
    json_decref(*out);
    *out = NULL;
}

static json_t *shared(const json_t *schema) {
    return json_incref((json_t *)schema);
}

/* Values of the types that `types` has not. */
static void add_types(json_t **out, unsigned types) {
    static const struct {
        unsigned bit;
        const char *name;
    } names[] = {
        {TYPE_NULL, "null"},     {TYPE_BOOLEAN, "boolean"},        {TYPE_INTEGER, "integer"},
        {TYPE_STRING, "string"}, {TYPE_FRACTION, SCHEMA_FRACTION}, {TYPE_ARRAY, "array"},
        {TYPE_OBJECT, "object"}};
    json_t *list = json_array();
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!(types & names[i].bit))
            json_array_append_new(list, json_string_nocheck(names[i].name));
    negate_add(out, json_pack("{s:o}", "type", list));
}

/* Whether it is seen at once that all values are valid by the schema. */
static bool allows_all(const json_t *schema) {
    return json_is_true(schema) || (json_is_object(schema) && json_object_size(schema) == 0);
}

static json_t *negated(const json_t *schema) {
    return json_pack("{s:o}", "not", shared(schema));
}

static Status negate_refuse(SchemaCompiler *c, const char *keyword) {
    return error_set(c->error,
                     "'%s' inside of 'not' (or where the branches of 'oneOf' overlap, or in "
                     "'if') cannot be enforced",
                     keyword);
}

static Status negate_properties(SchemaCompiler *c, const json_t *value, json_t **out) {
    const char *name;
    json_t *schema;
    if (!json_is_object(value)) return error_set(c->error, "'properties' must be an object");
    json_object_foreach((json_t *)value, name, schema) {
        if (allows_all(schema)) continue;
        json_t *properties = json_object();
        json_object_set_new_nocheck(properties, name, negated(schema));
        negate_add(out, json_pack("{s:s,s:[o],s:o}", "type", "object", "required",
                                  json_string_nocheck(name), "properties", properties));
    }
    return STATUS_OK;
}

static Status negate_required(SchemaCompiler *c, const json_t *value, json_t **out) {
    size_t i;
    json_t *name;
    if (json_is_boolean(value)) return STATUS_OK; /* draft 3 */
    if (!json_is_array(value)) return error_set(c->error, "'required' must be a list");
    json_array_foreach((json_t *)value, i, name) {
        json_t *properties = json_object();
        if (!json_is_string(name)) return error_set(c->error, "'required' must list names");
        json_object_set_new_nocheck(properties, json_string_value(name), json_false());
        negate_add(out, json_pack("{s:s,s:o}", "type", "object", "properties", properties));
    }
    return STATUS_OK;
}

static Status negate_values(SchemaCompiler *c, const char *keyword, const json_t *value,
                            json_t **out) {
    json_t *list = strcmp(keyword, "enum") == 0 ? shared(value) : json_pack("[o]", shared(value));
    size_t i;
    json_t *item;
    json_array_foreach(list, i, item) {
        if (schema_is_scalar(item)) continue;
        json_decref(list);
        return negate_refuse(c, keyword);
    }
    negate_add(out, json_pack("{s:o}", SCHEMA_NONE_OF, list));
    return STATUS_OK;
}

/* Keywords whose negation is another keyword's number, one less or one more. */
static const struct {
    const char *keyword, *type, *other;
    int step;
} sizes[] = {
    {"minLength", "string", "maxLength", -1},
    {"maxLength", "string", "minLength", 1},
    {"minItems", "array", "maxItems", -1},
    {"maxItems", "array", "minItems", 1},
    {"minProperties", "object", "maxProperties", -1},
    {"maxProperties", "object", "minProperties", 1},
};

static Status negate_size(SchemaCompiler *c, const json_t *schema, size_t i, json_t **out) {
    uint32_t size;
    bool given;
    if (schema_size(c, schema, sizes[i].keyword, &size, &given) != STATUS_OK) return STATUS_FAILED;
    if (sizes[i].step < 0 && size == 0) return STATUS_OK;
    negate_add(out, json_pack("{s:s,s:I}", "type", sizes[i].type, sizes[i].other,
                              (json_int_t)size + sizes[i].step));
    return STATUS_OK;
}

/* Not all items are valid: one is not. Not one item is valid: all are not. False: neither of these.
 */
static bool negate_items(const json_t *schema, const char *keyword, const json_t *value,
                         json_t **out) {
    bool all = strcmp(keyword, "items") == 0;
    if (!json_is_object(value) || (!all && strcmp(keyword, "contains") != 0)) return false;
    if (all && json_object_get(schema, "prefixItems")) return false;
    if (!all && (json_object_get(schema, "minContains") || json_object_get(schema, "maxContains")))
        return false;
    negate_add(out,
               json_pack("{s:s,s:o}", "type", "array", all ? "contains" : "items", negated(value)));
    return true;
}

/* Appends to *out schemas for the values that break this keyword: a value breaks it if it matches
 * one of them. Refuses keywords whose opposite no supported schema can say. */
static Status negate_keyword(SchemaCompiler *c, const json_t *schema, const char *keyword,
                             const json_t *value, json_t **out) {
    static const char *const limits[][2] = {{"minimum", "exclusiveMaximum"},
                                            {"maximum", "exclusiveMinimum"},
                                            {"exclusiveMinimum", "maximum"},
                                            {"exclusiveMaximum", "minimum"}};
    static const char *const refused[] = {"items",
                                          "prefixItems",
                                          "additionalItems",
                                          "contains",
                                          "patternProperties",
                                          "additionalProperties",
                                          "propertyNames",
                                          "dependentRequired",
                                          "dependentSchemas",
                                          "dependencies",
                                          "unevaluatedItems",
                                          "unevaluatedProperties",
                                          "oneOf",
                                          "if",
                                          "multipleOf",
                                          "uniqueItems",
                                          "$dynamicRef",
                                          "$recursiveRef"};
    size_t i;
    json_t *item;
    bool known;
    if (strcmp(keyword, "type") == 0) {
        unsigned types = schema_types(schema, &known);
        if (!known) return error_set(c->error, "'type' must name types of JSON");
        add_types(out, types);
        return STATUS_OK;
    }
    if (strcmp(keyword, "properties") == 0) return negate_properties(c, value, out);
    if (strcmp(keyword, "required") == 0) return negate_required(c, value, out);
    if (strcmp(keyword, "enum") == 0 || strcmp(keyword, "const") == 0)
        return negate_values(c, keyword, value, out);
    for (i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (strcmp(keyword, sizes[i].keyword) == 0) return negate_size(c, schema, i, out);
    for (i = 0; i < 4; i++) {
        if (strcmp(keyword, limits[i][0]) != 0) continue;
        if (json_is_boolean(value)) return negate_refuse(c, keyword);
        if (json_is_true(json_object_get(schema, i == 0 ? "exclusiveMinimum" : "exclusiveMaximum")))
            return negate_refuse(c, keyword);
        negate_add(out, json_pack("{s:s,s:o}", "type", "number", limits[i][1], shared(value)));
        return STATUS_OK;
    }
    if (strcmp(keyword, "pattern") == 0 || strcmp(keyword, "format") == 0) {
        const char *other = keyword[0] == 'p' ? SCHEMA_NO_PATTERN : SCHEMA_NO_FORMAT;
        negate_add(out, json_pack("{s:s,s:o}", "type", "string", other, shared(value)));
    } else if (strcmp(keyword, "not") == 0) {
        negate_add(out, shared(value));
    } else if (strcmp(keyword, "allOf") == 0) {
        json_array_foreach((json_t *)value, i, item) {
            negate_add(out, negated(item));
        }
    } else if (strcmp(keyword, "anyOf") == 0) {
        json_t *all = json_array();
        json_array_foreach((json_t *)value, i, item) {
            json_array_append_new(all, negated(item));
        }
        negate_add(out, json_pack("{s:o}", "allOf", all));
    } else if (strcmp(keyword, "$ref") == 0) {
        const json_t *target;
        if (!json_is_string(value)) return error_set(c->error, "'$ref' must be a text");
        if (schema_resolve(c, schema, "$ref", json_string_value(value), &target) != STATUS_OK)
            return STATUS_FAILED;
        negate_add(out, negated(target));
    } else {
        if (allows_all(value) || negate_items(schema, keyword, value, out)) return STATUS_OK;
        for (i = 0; i < sizeof refused / sizeof *refused; i++)
            if (strcmp(keyword, refused[i]) == 0) return negate_refuse(c, keyword);
    }
    return STATUS_OK;
}

Status schema_negate(SchemaCompiler *c, const json_t *schema, const json_t **alternatives) {
    char address[32];
    snprintf(address, sizeof address, "%p", (const void *)schema);
    *alternatives = json_object_get(c->negations, address);
    if (*alternatives) return STATUS_OK;
    json_t *out = json_array();
    Status status = STATUS_OK;
    if (json_is_false(schema)) negate_add(&out, json_true());
    if (json_is_object(schema)) {
        const char *keyword;
        json_t *value;
        bool alone = c->refs_alone && json_object_get(schema, "$ref");
        json_object_foreach((json_t *)schema, keyword, value) {
            if (alone && strcmp(keyword, "$ref") != 0) continue;
            if (status == STATUS_OK) status = negate_keyword(c, schema, keyword, value, &out);
        }
    }
    /* Both the schema and the result must live, or another one could have its address. */
    bool kept = out && json_array_append(c->made, (json_t *)schema) == 0 &&
                json_object_set_new(c->negations, address, out) == 0;
    if (!kept) return schema_no_memory(c);
    if (status != STATUS_OK) json_object_del(c->negations, address);
    *alternatives = status == STATUS_OK ? out : NULL;
    return status;
}
