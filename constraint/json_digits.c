#include "constraint/json_digits.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"

enum { KEY_SIZE = 32 };

/* The key of a number among the noted ones: its address. */
static const char *key_of(const json_t *number, char key[KEY_SIZE]) {
    snprintf(key, KEY_SIZE, "%p", (const void *)number);
    return key;
}

bool json_digits_note(json_t *digits, json_t *number, const char *text, size_t n) {
    char key[KEY_SIZE];
    json_t *entry = json_array();
    bool noted = json_array_append(entry, number) == 0 &&
                 json_array_append_new(entry, json_stringn_nocheck(text, n)) == 0 &&
                 json_object_set_nocheck(digits, key_of(number, key), entry) == 0;
    json_decref(entry);
    return noted;
}

const char *json_digits_find(const json_t *digits, const json_t *number) {
    char key[KEY_SIZE];
    if (!digits || !json_is_number(number)) return NULL;
    return json_string_value(json_array_get(json_object_get(digits, key_of(number, key)), 1));
}

bool json_digits_are_whole(const char *text) {
    return !strpbrk(text, ".eE");
}

/* ---- Writing --------------------------------------------------------------------------------- */

typedef struct Writer {
    const json_t *digits;
    json_dump_callback_t put;
    void *data;
    size_t flags;
} Writer;

static int put_text(const Writer *w, const char *text) {
    return w->put(text, strlen(text), w->data);
}

static int write_value(const Writer *w, const json_t *value);

static int write_array(const Writer *w, const json_t *array) {
    const char *comma = w->flags & JSON_COMPACT ? "," : ", ";
    const json_t *item;
    size_t i;
    if (put_text(w, "[") != 0) return -1;
    json_array_foreach((json_t *)array, i, item) {
        if ((i > 0 && put_text(w, comma) != 0) || write_value(w, item) != 0) return -1;
    }
    return put_text(w, "]");
}

static int write_key(const Writer *w, const char *key) {
    json_t *name = json_string_nocheck(key);
    int failed = name ? write_value(w, name) : -1;
    json_decref(name);
    return failed ? failed : put_text(w, w->flags & JSON_COMPACT ? ":" : ": ");
}

static int write_object(const Writer *w, const json_t *object) {
    const char *key, *comma = w->flags & JSON_COMPACT ? "," : ", ";
    bool is_first = true;
    json_t *item;
    if (put_text(w, "{") != 0) return -1;
    json_object_foreach((json_t *)object, key, item) {
        if ((!is_first && put_text(w, comma) != 0) || write_key(w, key) != 0 ||
            write_value(w, item) != 0)
            return -1;
        is_first = false;
    }
    return put_text(w, "}");
}

static int write_value(const Writer *w, const json_t *value) {
    const char *noted = json_digits_find(w->digits, value);
    if (noted) return put_text(w, noted);
    if (json_is_array(value)) return write_array(w, value);
    if (json_is_object(value)) return write_object(w, value);
    return json_dump_callback(value, w->put, w->data, w->flags);
}

int json_digits_dump_callback(const json_t *value, const json_t *digits,
                              json_dump_callback_t callback, void *data, size_t flags) {
    const Writer w = {digits, callback, data, flags | JSON_ENCODE_ANY};
    if (!value) return -1;
    if (json_object_size(digits) == 0) return json_dump_callback(value, callback, data, w.flags);
    return write_value(&w, value);
}

static int put_in_text(const char *bytes, size_t n, void *data) {
    TextBuffer *text = data;
    text_put(text, bytes, n, 0);
    return text->failed ? -1 : 0;
}

char *json_digits_dumps(const json_t *value, const json_t *digits, size_t flags) {
    TextBuffer text = {0};
    bool written = json_digits_dump_callback(value, digits, put_in_text, &text, flags) == 0;
    if (written) text_put(&text, "", 1, 0);
    if (written && !text.failed) return text.bytes;
    text_free(&text);
    return NULL;
}
