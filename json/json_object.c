#include "json/json_object.h"

#include <string.h>

#include "base/utf8.h"
#include "json/json_reader.h"

Status json_parse(json_t **out, const char *path, const void *text, size_t bytes, Error *error) {
    json_error_t where;
    if (bytes == 0) text = "";                   /* an empty file's bytes may be NULL */
    size_t mark = utf8_mark_length(text, bytes); /* readers may ignore it (RFC 8259, 8.1) */
    text = (const char *)text + mark;
    bytes -= mark;
    *out = json_reader_load(text, bytes, JSON_ALLOW_NUL | JSON_READER_PYTHON, &where);
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

/* The member path[n], "KEY" or "KEY.KEY" of an object in the object; NULL: there is none. */
static const json_t *member_at(const json_t *object, const char *path, size_t n) {
    for (const char *dot; (dot = memchr(path, '.', n)); path = dot + 1) {
        object = json_object_getn(object, path, (size_t)(dot - path));
        n -= (size_t)(dot + 1 - path);
    }
    return json_object_getn(object, path, n);
}

const json_t *json_first(const json_t *object, const char *keys) {
    const json_t *null = NULL;
    while (*keys) {
        size_t n = strcspn(keys, "|");
        const json_t *value = member_at(object, keys, n);
        if (value && !json_is_null(value)) return value;
        if (value) null = value;
        keys += n + (keys[n] == '|');
    }
    return null;
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

bool json_switch(const json_t *object, const char *keys, bool absent) {
    const json_t *value = json_first(object, keys);
    if (json_is_null(value)) return false;
    return json_is_boolean(value) ? json_is_true(value) : absent;
}
