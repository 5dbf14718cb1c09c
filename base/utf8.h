/* UTF-8: the one decoder and encoder. No other file takes bytes of characters apart
 * (scripts/check-texts). */
#ifndef UTF8_H
#define UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* U+FFFD, which replaces bytes that are not UTF-8. */
#define UTF8_REPLACEMENT "\xEF\xBF\xBD"

/* U+FEFF, the byte order mark, which some editors put at the beginning of a file. It is not part of
 * the text. */
#define UTF8_MARK "\xEF\xBB\xBF"

/* True for a byte that continues a character (10xxxxxx). */
static inline bool utf8_continues(char byte) {
    return ((uint8_t)byte & 0xC0) == 0x80;
}

/* The length in bytes of the character that begins with `lead` in well-formed text. */
static inline size_t utf8_length(char lead) {
    return (uint8_t)lead < 0x80 ? 1 : (uint8_t)lead < 0xE0 ? 2 : (uint8_t)lead < 0xF0 ? 3 : 4;
}

/* The length in bytes of the character at text[0] and its code point, or 0 where text[n] does
 * not begin with a well-formed character (n == 0 included). Overlong forms, surrogates and
 * numbers beyond U+10FFFF are not well-formed (Unicode table 3-7). */
size_t utf8_decode(const char *text, size_t n, uint32_t *code);

/* Like utf8_decode, but takes a byte that does not begin a well-formed character as U+FFFD of
 * length 1, so that a loop always advances. Needs n > 0. */
size_t utf8_next(const char *text, size_t n, uint32_t *code);

/* The start of the character that ends just before text[at]. Needs at > 0 and well-formed text. */
size_t utf8_previous(const char *text, size_t at);

/* Where text[n] may be cut without tearing a character: the last character boundary that does not
 * lie after `at` (which is at most n). */
size_t utf8_boundary(const char *text, size_t n, size_t at);

/* The number of characters of text[n], which is well-formed. */
size_t utf8_count(const char *text, size_t n);

/* Whether text[n] begins as UTF-16 does, in either order of bytes: with its mark. */
bool utf8_is_utf16(const char *text, size_t n);

/* The length of the byte order mark at the beginning of text[n]: 3, or 0 where there is none. */
size_t utf8_mark_length(const char *text, size_t n);

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

#endif
