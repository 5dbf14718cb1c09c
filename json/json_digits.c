#include "json/json_digits.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/text.h"

/* A batch's line of 64 MiB can have tens of millions of numbers: what each of them costs is an
 * entry, its digits and one or two slots. */
enum { FIRST_SLOTS = 64 };

typedef struct Entry {
    json_t *number; /* a reference */
    size_t at;      /* where its digits begin; a zero ends them */
} Entry;

struct JsonDigits {
    Entry *entries; /* [n] in the order in which they were noted */
    size_t n, capacity;
    char *text; /* [length] */
    size_t length, text_capacity;
    uint32_t *slots; /* [n_slots], a power of two: an entry's index + 1, or 0; never full */
    size_t n_slots;
};

JsonDigits *json_digits_new(void) {
    return calloc(1, sizeof(JsonDigits));
}

void json_digits_free(JsonDigits *digits) {
    if (!digits) return;
    for (size_t i = 0; i < digits->n; i++) json_decref(digits->entries[i].number);
    free(digits->entries);
    free(digits->text);
    free(digits->slots);
    free(digits);
}

/* The slot of a number, or the empty one where it belongs; there must be slots. */
static uint32_t *slot_of(const JsonDigits *digits, const json_t *number) {
    const uint64_t address = (uintptr_t)number, last = digits->n_slots - 1;
    uint64_t i = (address * 0x9E3779B97F4A7C15u >> 32) & last;
    while (digits->slots[i] && digits->entries[digits->slots[i] - 1].number != number)
        i = (i + 1) & last;
    return &digits->slots[i];
}

/* Makes room for another entry's slot: at least a quarter of them stays empty. */
static bool reserve_slot(JsonDigits *digits) {
    size_t n = digits->n_slots;
    if (digits->n < n - n / 4) return true;
    if (digits->n >= UINT32_MAX / 2 || n > SIZE_MAX / 2 / sizeof *digits->slots) return false;
    uint32_t *slots = calloc(n > 0 ? 2 * n : FIRST_SLOTS, sizeof *slots);
    if (!slots) return false;
    free(digits->slots);
    digits->slots = slots;
    digits->n_slots = n > 0 ? 2 * n : FIRST_SLOTS;
    for (size_t i = 0; i < digits->n; i++)
        *slot_of(digits, digits->entries[i].number) = (uint32_t)(i + 1);
    return true;
}

bool json_digits_note(JsonDigits *digits, json_t *number, const char *text, size_t n) {
    const size_t at = digits->length;
    if (n >= SIZE_MAX - at || !reserve_slot(digits) ||
        !array_reserve(&digits->text, &digits->text_capacity, at + n + 1, 1) ||
        !array_reserve(&digits->entries, &digits->capacity, digits->n + 1, sizeof(Entry)))
        return false;
    memcpy(digits->text + at, text, n);
    digits->text[at + n] = '\0';
    digits->length += n + 1;
    uint32_t *slot = slot_of(digits, number);
    if (*slot) { /* noted before */
        digits->entries[*slot - 1].at = at;
        return true;
    }
    digits->entries[digits->n++] = (Entry){json_incref(number), at};
    *slot = (uint32_t)digits->n;
    return true;
}

const char *json_digits_find(const JsonDigits *digits, const json_t *number) {
    if (!digits || digits->n == 0 || !json_is_number(number)) return NULL;
    const uint32_t found = *slot_of(digits, number);
    return found ? digits->text + digits->entries[found - 1].at : NULL;
}

size_t json_digits_count(const JsonDigits *digits) {
    return digits ? digits->n : 0;
}

json_t *json_digits_at(const JsonDigits *digits, size_t i, const char **text) {
    *text = digits->text + digits->entries[i].at;
    return digits->entries[i].number;
}

bool json_digits_are_whole(const char *text) {
    return !strpbrk(text, ".eE");
}

/* ---- Writing --------------------------------------------------------------------------------- */

typedef struct Writer {
    const JsonDigits *digits;
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

int json_digits_dump_callback(const json_t *value, const JsonDigits *digits,
                              json_dump_callback_t callback, void *data, size_t flags) {
    const Writer w = {digits, callback, data, flags | JSON_ENCODE_ANY};
    if (!value) return -1;
    if (json_digits_count(digits) == 0) return json_dump_callback(value, callback, data, w.flags);
    return write_value(&w, value);
}

static int put_in_text(const char *bytes, size_t n, void *data) {
    TextBuffer *text = data;
    text_put(text, bytes, n, 0);
    return text->failed ? -1 : 0;
}

char *json_digits_dumps(const json_t *value, const JsonDigits *digits, size_t flags) {
    TextBuffer text = {0};
    bool written = json_digits_dump_callback(value, digits, put_in_text, &text, flags) == 0;
    if (written) text_put(&text, "", 1, 0);
    if (written && !text.failed) return text.bytes;
    text_free(&text);
    return NULL;
}
