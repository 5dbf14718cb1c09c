#include "formats/json.h"

Status json_parse(json_t **out, const char *path, const void *text, size_t bytes, Error *error) {
    json_error_t where;
    *out = json_loadb(text, bytes, JSON_ALLOW_NUL, &where);
    if (!*out) return error_set(error, "%s: line %d: %s", path, where.line, where.text);
    if (json_is_object(*out)) return STATUS_OK;
    json_decref(*out);
    *out = NULL;
    return error_set(error, "%s: not a JSON object", path);
}

const json_t *json_value(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    return value && !json_is_null(value) ? value : NULL;
}

double json_number(const json_t *object, const char *key, double absent) {
    const json_t *value = json_value(object, key);
    return json_is_number(value) ? json_number_value(value) : absent;
}

const char *json_text(const json_t *object, const char *key) {
    return json_string_value(json_value(object, key));
}

bool json_flag(const json_t *object, const char *key, bool absent) {
    const json_t *value = json_value(object, key);
    return json_is_boolean(value) ? json_is_true(value) : absent;
}
