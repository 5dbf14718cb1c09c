#include "constraint/schema_parts.h"

#include <string.h>

#include "base/array.h"
#include "constraint/exact_json.h"

enum { MOST_WORK = 400000 };

bool schema_count(SchemaCompiler *c, size_t steps) {
    c->work += steps;
    if (c->work <= MOST_WORK) return true;
    error_set(c->error, "the schema has too many combinations");
    return false;
}

bool schema_list_push(SchemaList *list, const json_t *schema) {
    if (!array_reserve(&list->items, &list->capacity, list->n + 1, sizeof *list->items))
        return false;
    list->items[list->n++] = schema;
    return true;
}

Status schema_no_memory(SchemaCompiler *c) {
    return error_set(c->error, "no memory for a schema");
}

const json_t *schema_own(SchemaCompiler *c, json_t *schema) {
    if (schema && json_array_append_new(c->made, schema) == 0) return schema;
    schema_no_memory(c);
    return NULL;
}

bool schema_is_scalar(const json_t *value) {
    return !json_is_object(value) && !json_is_array(value);
}

static unsigned type_bits(const char *name) {
    static const struct {
        const char *name;
        unsigned bits;
    } types[] = {
        {"null", TYPE_NULL},     {"boolean", TYPE_BOOLEAN}, {"integer", TYPE_INTEGER},
        {"number", TYPE_NUMBER}, {"string", TYPE_STRING},   {"array", TYPE_ARRAY},
        {"object", TYPE_OBJECT}, {"any", TYPE_ANY},         {SCHEMA_FRACTION, TYPE_FRACTION}};
    for (size_t i = 0; name && i < sizeof types / sizeof *types; i++)
        if (strcmp(types[i].name, name) == 0) return types[i].bits;
    return 0;
}

unsigned schema_types(const json_t *schema, bool *known) {
    const json_t *type = json_object_get(schema, "type");
    *known = true;
    if (!type) return TYPE_ANY;
    if (!json_is_array(type)) {
        unsigned bits = type_bits(json_string_value(type));
        *known = bits != 0;
        return bits;
    }
    unsigned all = 0;
    size_t i;
    json_t *item;
    json_array_foreach((json_t *)type, i, item) {
        unsigned bits = type_bits(json_string_value(item));
        if (bits == 0) *known = false;
        all |= bits;
    }
    return all;
}

Status schema_size(SchemaCompiler *c, const json_t *schema, const char *keyword, uint32_t *size,
                   bool *given) {
    const json_t *value = json_object_get(schema, keyword);
    *given = value != NULL;
    if (!value) return STATUS_OK;
    double number = json_is_number(value) ? json_number_value(value) : -1;
    char decimal[EXACT_DECIMAL_SIZE] = "";
    if (json_is_number(value)) exact_json_decimal(c->digits, value, decimal);
    if (!(number >= 0) || strchr(decimal, '.'))
        return error_set(c->error, "'%s' must be a whole number from 0 up", keyword);
    *size = number < 2e9 ? (uint32_t)number : 2000000000u;
    if (number >= 2e9 && strncmp(keyword, "max", 3) == 0) *given = false; /* no text is so long */
    return STATUS_OK;
}
