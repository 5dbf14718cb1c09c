/* UTF-8, white space, and ByteLevel's alphabet. */
#ifndef UNICODE_H
#define UNICODE_H

#include "base/text.h"

/* U+FFFD, which replaces bytes that are not UTF-8. */
#define UTF8_REPLACEMENT "\xEF\xBF\xBD"

/* True for a byte that continues a character (10xxxxxx). */
static inline bool utf8_continues(char byte) {
    return ((uint8_t)byte & 0xC0) == 0x80;
}

/* The length in bytes of the character at text[0] and its code point, or 0 where text[n] does
 * not begin with a well-formed character (n == 0 included). */
size_t utf8_decode(const char *text, size_t n, uint32_t *code);

/* Like utf8_decode, but takes a byte that does not begin a well-formed character as U+FFFD of
 * length 1, so that a loop always advances. Needs n > 0. */
size_t utf8_next(const char *text, size_t n, uint32_t *code);

/* The start of the character that ends just before text[at]. Needs at > 0 and well-formed text. */
size_t utf8_previous(const char *text, size_t at);

/* The length of the longest well-formed prefix of text[n]. */
size_t utf8_valid_prefix(const char *text, size_t n);

/* The number of bytes at the end of text[n] that begin a character which further bytes may
 * complete. */
size_t utf8_incomplete_tail(const char *text, size_t n);

/* The length of the first ill-formed sequence of text[n] as one U+FFFD replaces it (Unicode
 * 3.9, maximal subpart); text[0] must not begin a well-formed character. */
size_t utf8_bad_length(const char *text, size_t n);

/* Writes `code` (a scalar value) into text[4] and returns its length in bytes. */
size_t utf8_encode(uint32_t code, char text[4]);

/* Appends the character `code` (a scalar value). */
void utf8_put(TextBuffer *out, uint32_t code, uint8_t from_template);

/* Appends bytes[n] with each ill-formed sequence replaced by U+FFFD. */
void utf8_put_repaired(TextBuffer *out, const char *bytes, size_t n);

/* The White_Space property. */
bool unicode_is_space(uint32_t code);

/* Appends bytes[n] in the alphabet in which byte-level vocabularies write each byte as one
 * printable character (GPT-2's table). from_template as in text_copy. */
void bytelevel_map(TextBuffer *out, const char *bytes, size_t n, const uint8_t *from_template);
/* The byte that a character of that alphabet stands for, or -1. */
int bytelevel_byte(uint32_t code);

#endif
