/* What Python's str knows of characters: categories from utf8proc's Unicode data. */
#ifndef TEMPLATE_CHARACTER_CLASSES_H
#define TEMPLATE_CHARACTER_CLASSES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

bool jinja_char_is_space(uint32_t c);
bool jinja_char_is_alpha(uint32_t c);
bool jinja_char_is_digit(uint32_t c);
bool jinja_char_is_numeric(uint32_t c);
bool jinja_char_is_lower(uint32_t c);
bool jinja_char_is_upper(uint32_t c); /* also title case */
bool jinja_char_is_word(uint32_t c);  /* \w of Python's regular expressions */
bool jinja_char_is_printable(uint32_t c);
bool jinja_char_ends_line(uint32_t c);    /* for splitlines() */
bool jinja_char_ignores_case(uint32_t c); /* Unicode's Case_Ignorable: does not end a word */
int jinja_digit_value(uint8_t c);         /* of 0-9, a-z and A-Z; 99 for any other byte */

#endif
