#include "base/text.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/status.h"

/* Makes room for `more` bytes and one to spare, which keeps `bytes` from being NULL. */
static bool text_reserve(TextBuffer *text, size_t more) {
    size_t needed;
    if (!text->tracked && more < text->capacity - text->length) return !text->failed;
    bool fits =
        size_add(text->length + 1, more, &needed) && (text->limit == 0 || needed <= text->limit) &&
        array_reserve(&text->bytes, &text->capacity, needed, 1) &&
        (!text->tracked || array_reserve(&text->from_template, &text->tracked_capacity, needed, 1));
    text->failed = text->failed || !fits;
    return !text->failed;
}

void text_put(TextBuffer *text, const char *bytes, size_t n, uint8_t from_template) {
    if (!text_reserve(text, n) || n == 0) return;
    memcpy(text->bytes + text->length, bytes, n);
    if (text->tracked) memset(text->from_template + text->length, from_template, n);
    text->length += n;
}

void text_copy(TextBuffer *text, const char *bytes, const uint8_t *from_template, size_t from,
               size_t to) {
    text_put(text, bytes + from, to - from, 0);
    if (text->tracked && from_template && !text->failed && to > from)
        memcpy(text->from_template + text->length - (to - from), from_template + from, to - from);
}

uint8_t text_all_from_template(const uint8_t *from_template, size_t from, size_t to) {
    uint8_t all = from_template != NULL;
    for (size_t i = from; i < to && all; i++) all = from_template[i] != 0;
    return all;
}

void text_free(TextBuffer *text) {
    free(text->bytes);
    free(text->from_template);
    *text = (TextBuffer){0};
}
