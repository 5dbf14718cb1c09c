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

/* Appends to *out a schema for the values that break a keyword, or several: a value breaks it if it
 * matches one of them. `value` is the keyword's in `schema`. */
typedef Status Negate(SchemaCompiler *c, const json_t *schema, const char *keyword,
                      const json_t *value, json_t **out);

/* An object that has one of the members, and it breaks that member's schema. */
static Status negate_properties(SchemaCompiler *c, const json_t *schema, const char *keyword,
                                const json_t *value, json_t **out) {
    const char *name;
    json_t *member;
    (void)schema, (void)keyword;
    if (!json_is_object(value)) return error_set(c->error, "'properties' must be an object");
    json_object_foreach((json_t *)value, name, member) {
        if (allows_all(member)) continue;
        json_t *properties = json_object();
        json_object_set_new_nocheck(properties, name, negated(member));
        negate_add(out, json_pack("{s:s,s:[o],s:o}", "type", "object", "required",
                                  json_string_nocheck(name), "properties", properties));
    }
    return STATUS_OK;
}

/* An object that lacks one of the names. */
static Status negate_required(SchemaCompiler *c, const json_t *schema, const char *keyword,
                              const json_t *value, json_t **out) {
    size_t i;
    json_t *name;
    (void)schema, (void)keyword;
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

/* "enum" and "const", of scalars. */
static Status negate_values(SchemaCompiler *c, const json_t *schema, const char *keyword,
                            const json_t *value, json_t **out) {
    json_t *list = strcmp(keyword, "enum") == 0 ? shared(value) : json_pack("[o]", shared(value));
    size_t i;
    json_t *item;
    (void)schema;
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

/* A size beyond the limit: the opposite limit, one less or one more. No size is below 0. */
static Status negate_size(SchemaCompiler *c, const json_t *schema, const char *keyword,
                          const json_t *value, json_t **out) {
    uint32_t size;
    bool given;
    size_t i = 0;
    (void)value;
    while (strcmp(keyword, sizes[i].keyword) != 0) i++;
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

static Status negate_type(SchemaCompiler *c, const json_t *schema, const char *keyword,
                          const json_t *value, json_t **out) {
    bool known;
    unsigned types = schema_types(schema, &known);
    (void)keyword, (void)value;
    if (!known) return error_set(c->error, "'type' must name types of JSON");
    add_types(out, types);
    return STATUS_OK;
}

/* A limit that is not kept is the opposite limit: not "minimum" is "exclusiveMaximum". Draft 4's
 * boolean "exclusiveMinimum", which changes what "minimum" says, is refused. */
static Status negate_limit(SchemaCompiler *c, const json_t *schema, const char *keyword,
                           const json_t *value, json_t **out) {
    static const char *const limits[][2] = {{"minimum", "exclusiveMaximum"},
                                            {"maximum", "exclusiveMinimum"},
                                            {"exclusiveMinimum", "maximum"},
                                            {"exclusiveMaximum", "minimum"}};
    const char *draft4 = strcmp(keyword, "minimum") == 0 ? "exclusiveMinimum" : "exclusiveMaximum";
    size_t i = 0;
    while (strcmp(keyword, limits[i][0]) != 0) i++;
    if (json_is_boolean(value) || json_is_true(json_object_get(schema, draft4)))
        return negate_refuse(c, keyword);
    negate_add(out, json_pack("{s:s,s:o}", "type", "number", limits[i][1], shared(value)));
    return STATUS_OK;
}

/* "pattern" and "format": a text that does not match. */
static Status negate_match(SchemaCompiler *c, const json_t *schema, const char *keyword,
                           const json_t *value, json_t **out) {
    const char *other = keyword[0] == 'p' ? SCHEMA_NO_PATTERN : SCHEMA_NO_FORMAT;
    (void)c, (void)schema;
    negate_add(out, json_pack("{s:s,s:o}", "type", "string", other, shared(value)));
    return STATUS_OK;
}

/* "not", and De Morgan's laws for "allOf" and "anyOf". */
static Status negate_logic(SchemaCompiler *c, const json_t *schema, const char *keyword,
                           const json_t *value, json_t **out) {
    json_t *item, *all = strcmp(keyword, "anyOf") == 0 ? json_array() : NULL;
    size_t i;
    (void)c, (void)schema;
    if (strcmp(keyword, "not") == 0) {
        negate_add(out, shared(value));
        return STATUS_OK;
    }
    json_array_foreach((json_t *)value, i, item) {
        if (all) {
            json_array_append_new(all, negated(item));
        } else {
            negate_add(out, negated(item));
        }
    }
    if (all) negate_add(out, json_pack("{s:o}", "allOf", all));
    return STATUS_OK;
}

static Status negate_reference(SchemaCompiler *c, const json_t *schema, const char *keyword,
                               const json_t *value, json_t **out) {
    const json_t *target;
    (void)keyword;
    if (!json_is_string(value)) return error_set(c->error, "'$ref' must be a text");
    if (schema_resolve(c, schema, "$ref", json_string_value(value), &target) != STATUS_OK)
        return STATUS_FAILED;
    negate_add(out, negated(target));
    return STATUS_OK;
}

/* Keywords whose opposite no supported schema can say, but for simple forms of some. */
static Status negate_rarely(SchemaCompiler *c, const json_t *schema, const char *keyword,
                            const json_t *value, json_t **out) {
    if (allows_all(value) || negate_items(schema, keyword, value, out)) return STATUS_OK;
    return negate_refuse(c, keyword);
}

static const struct {
    const char *keyword;
    Negate *negate;
} negations[] = {
    {"type", negate_type},
    {"properties", negate_properties},
    {"required", negate_required},
    {"enum", negate_values},
    {"const", negate_values},
    {"minLength", negate_size},
    {"maxLength", negate_size},
    {"minItems", negate_size},
    {"maxItems", negate_size},
    {"minProperties", negate_size},
    {"maxProperties", negate_size},
    {"minimum", negate_limit},
    {"maximum", negate_limit},
    {"exclusiveMinimum", negate_limit},
    {"exclusiveMaximum", negate_limit},
    {"pattern", negate_match},
    {"format", negate_match},
    {"not", negate_logic},
    {"allOf", negate_logic},
    {"anyOf", negate_logic},
    {"$ref", negate_reference},
    {"items", negate_rarely},
    {"prefixItems", negate_rarely},
    {"additionalItems", negate_rarely},
    {"contains", negate_rarely},
    {"patternProperties", negate_rarely},
    {"additionalProperties", negate_rarely},
    {"propertyNames", negate_rarely},
    {"dependentRequired", negate_rarely},
    {"dependentSchemas", negate_rarely},
    {"dependencies", negate_rarely},
    {"unevaluatedItems", negate_rarely},
    {"unevaluatedProperties", negate_rarely},
    {"oneOf", negate_rarely},
    {"if", negate_rarely},
    {"multipleOf", negate_rarely},
    {"uniqueItems", negate_rarely},
    {"$dynamicRef", negate_rarely},
    {"$recursiveRef", negate_rarely},
};

/* Negates one keyword by the table. Those that it has not are annotations, which no value breaks.
 */
static Status negate_keyword(SchemaCompiler *c, const json_t *schema, const char *keyword,
                             const json_t *value, json_t **out) {
    for (size_t i = 0; i < sizeof negations / sizeof *negations; i++)
        if (strcmp(keyword, negations[i].keyword) == 0)
            return negations[i].negate(c, schema, keyword, value, out);
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
