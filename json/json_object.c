#include "json/json_object.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

/* Length of the integer that begins the text when it has so many digits that it may not fit into
 * jansson's 64 bits; else 0. */
static size_t long_integer(const char *text, size_t bytes) {
    size_t sign = bytes > 0 && text[0] == '-', n = sign;
    while (n < bytes && text[n] >= '0' && text[n] <= '9') n++;
    if (n < bytes && (text[n] == '.' || text[n] == 'e' || text[n] == 'E')) return 0;
    return n - sign > 18 ? n : 0;
}

/* Replaces an integer of n digits that 64 bits do not hold by the nearest real that can be written
 * in its place, padded with spaces. One that no double holds becomes null, as infinities do. */
static void write_as_real(char *integer, size_t n) {
    char digits[320], real[32] = "";
    size_t length = SIZE_MAX; /* until something fits */
    if (n < sizeof digits) {
        memcpy(digits, integer, n);
        digits[n] = '\0';
        errno = 0;
        if (strtoll(digits, NULL, 10) && errno == 0) return;
        for (int precision = 16; precision >= 0 && length > n; precision--)
            length = (size_t)snprintf(real, sizeof real, "%.*e", precision, strtod(digits, NULL));
    }
    bool is_finite = length <= n && strchr(real, 'e') != NULL;
    memset(integer, ' ', n);
    memcpy(integer, is_finite ? real : "null", is_finite ? length : 4);
}

/* A copy of a JSON text without what Python writes and jansson does not read. Python writes what
 * jansson does not read: infinities and NaN as words, and integers of any length (a tokenizer
 * without a limit has a model_max_length of 1e30 in digits). Returns a copy of the text in which
 * the words are null and such integers are reals; NULL: no memory. */
static char *without_python(const char *text, size_t bytes) {
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
        bool may_begin = !in_text && i > 0 && i < bytes && strchr(" \t\r\n:,[", copy[i - 1]);
        size_t digits = may_begin ? long_integer(copy + i, bytes - i) : 0;
        if (digits > 0) {
            write_as_real(copy + i, digits);
            i += digits - 1;
        }
    }
    return copy;
}

Status json_parse(json_t **out, const char *path, const void *text, size_t bytes, Error *error) {
    json_error_t where;
    if (bytes == 0) text = "";                   /* an empty file's bytes may be NULL */
    size_t mark = utf8_mark_length(text, bytes); /* readers may ignore it (RFC 8259, 8.1) */
    text = (const char *)text + mark;
    bytes -= mark;
    *out = json_loadb(text, bytes, JSON_ALLOW_NUL, &where);
    if (!*out) {
        char *copy = without_python(text, bytes);
        if (copy) *out = json_loadb(copy, bytes, JSON_ALLOW_NUL, &where);
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

const json_t *json_first(const json_t *object, const char *keys) {
    const json_t *null = NULL;
    while (*keys) {
        size_t n = strcspn(keys, "|");
        const json_t *value = json_object_getn(object, keys, n);
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
