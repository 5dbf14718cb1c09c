/* A text that grows at its end and can record which of its bytes come from a chat template. */
#ifndef TEXT_H
#define TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Zero-initialize; text_free frees. When memory runs out `failed` is set and later calls do
 * nothing, so that a caller checks once, at its end. */
typedef struct TextBuffer {
    char *bytes;            /* not NUL-terminated; not NULL once anything was put, even "" */
    uint8_t *from_template; /* [length] where `tracked`: nonzero for a byte of the template */
    size_t length, capacity, tracked_capacity;
    size_t limit; /* a longer text counts as a lack of memory; 0: no limit */
    bool tracked, failed;
} TextBuffer;

/* Appends bytes[n], all of one provenance (ignored where the text is not tracked). */
void text_put(TextBuffer *text, const char *bytes, size_t n, uint8_t from_template);

/* Appends bytes[from] to bytes[to - 1], each with its provenance from_template[i]; NULL: none comes
 * from the template. */
void text_copy(TextBuffer *text, const char *bytes, const uint8_t *from_template, size_t from,
               size_t to);

/* The provenance of something made of the bytes `from` to `to` - 1: 1 if all of them come from the
 * template, else 0. */
uint8_t text_all_from_template(const uint8_t *from_template, size_t from, size_t to);

void text_free(TextBuffer *text);

#endif
