/* Texts of Unicode that grow, white space, and ByteLevel's alphabet. base/utf8.h has the encoding.
 */
#ifndef UNICODE_H
#define UNICODE_H

#include "base/text.h"
#include "base/utf8.h"

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
