/* Sets of characters as expressions over the bytes of UTF-8, plain or as a JSON string holds them.
 */
#ifndef CONSTRAINT_CHARACTER_SETS_H
#define CONSTRAINT_CHARACTER_SETS_H

#include "constraint/regex.h"

/* How characters are written. In a JSON string each character has one form: itself, or for ", \ and
 * the control characters below U+0020 the short escape, else \u00XX with lowercase digits. */
typedef enum Writing { WRITING_PLAIN, WRITING_JSON } Writing;

typedef struct CharRange {
    uint32_t from, to;
} CharRange;

/* A set of code points. Zero-initialize; charset_free frees. `failed`: no memory. */
typedef struct CharSet {
    CharRange *ranges;
    size_t n, capacity;
    bool failed;
} CharSet;

void charset_add(CharSet *set, uint32_t from, uint32_t to);
void charset_add_all(CharSet *set, const CharSet *other);
/* Sorts and joins the ranges, without surrogates; then takes the complement where asked. */
void charset_normalize(CharSet *set, bool negate);
/* Adds the characters of a Unicode general category, "L" or "Lu"; false: there is no such. */
bool charset_add_category(CharSet *set, const char *name, size_t length);
void charset_free(CharSet *set);

/* The number that text[n] begins with, in `digits` hexadecimal digits (at most 8); false: it does
 * not begin with so many. */
bool charset_hex(const char *text, size_t n, size_t digits, uint32_t *number);

/* One character of a normalized set. */
Regex regex_charset(RegexArena *arena, const CharSet *set, Writing writing);
/* One character; the text of n bytes of UTF-8. */
Regex regex_char(RegexArena *arena, uint32_t code, Writing writing);
Regex regex_string(RegexArena *arena, const char *text, size_t n, Writing writing);
/* One character, any. */
Regex regex_any_char(RegexArena *arena, Writing writing);
/* One character of a JSON string in any form that JSON knows. */
Regex regex_any_json_char(RegexArena *arena);

#endif
