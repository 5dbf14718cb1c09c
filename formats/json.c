#include "formats/json.h"

#include <stdlib.h>
#include <string.h>

/* Python writes infinities and NaN as words that JSON does not have. Returns a copy of the text in
 * which each is null, padded with spaces; NULL: no memory. */
static char *without_infinities(const char *text, size_t bytes) {
    static const char *const words[] = {"-Infinity", "Infinity", "NaN"};
    char *copy = bytes > 0 ? malloc(bytes) : NULL;
    bool in_text = false;
    if (!copy) return NULL;
    memcpy(copy, text, bytes);
    for (size_t i = 0; i < bytes; i++) {
        if (copy[i] == '\\' && in_text)
            i++;
        else if (copy[i] == '"')
            in_text = !in_text;
        for (size_t k = 0; !in_text && k < sizeof words / sizeof *words && i < bytes; k++) {
            size_t n = strlen(words[k]);
            if (bytes - i < n || memcmp(copy + i, words[k], n) != 0) continue;
            memset(copy + i, ' ', n);
            /* NaN has no room for null: an object is no number either. */
            memcpy(copy + i, n < 4 ? "{}" : "null", n < 4 ? 2 : 4);
        }
    }
    return copy;
}

Status json_parse(json_t **out, const char *path, const void *text, size_t bytes, Error *error) {
    json_error_t where;
    *out = json_loadb(text, bytes, JSON_ALLOW_NUL, &where);
    if (!*out) {
        json_error_t ignored;
        char *copy = without_infinities(text, bytes);
        if (copy) *out = json_loadb(copy, bytes, JSON_ALLOW_NUL, &ignored);
        free(copy);
    }
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
