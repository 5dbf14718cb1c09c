/* Reading JSON of strangers into jansson's values, where memory may run out.
 *
 * jansson's own reader must never see a failed allocation (json/json_memory.h says why), and a
 * library cannot end its host instead. This reader takes the same flags, makes the same values and
 * gives the same messages as json_loadb of jansson 2.14; tests/test_json_reader.c compares them. It
 * can also take numbers of any size and keep their digits, which jansson cannot. It has one buffer,
 * reserved before it begins, for the longest text that the document can hold. */
#ifndef JSON_READER_H
#define JSON_READER_H

#include <jansson.h>

#include "json/json_digits.h"

/* As json_loadb(text, length, flags, where) of the flags JSON_REJECT_DUPLICATES, JSON_DECODE_ANY,
 * JSON_DISABLE_EOF_CHECK, JSON_DECODE_INT_AS_REAL and JSON_ALLOW_NUL; `where` may be NULL. NULL
 * with json_error_out_of_memory: memory ran out, whatever the text is. */
json_t *json_reader_load(const char *text, size_t length, size_t flags, json_error_t *where);

/* The text of a string that is compared with names of ours or passed on as one; NULL for any other
 * value, and for a string with a zero byte ("text\u0000"), which C's functions would take for the
 * shorter one. */
const char *json_reader_word(const json_t *value);

/* Further flags of json_reader_load_digits, beside jansson's. */
enum {
    /* Half of a surrogate pair (\ud800), of which Python writes text, reads as U+FFFD. */
    JSON_READER_LONE_SURROGATES = 1 << 16,
    /* Only whole numbers are noted. */
    JSON_READER_WHOLE_NUMBERS = 1 << 17
};

/* The same for numbers of any size: what 64 bits or a double do not hold is the nearest finite
 * double. `digits` (NULL: nobody asks) gets the digits of all numbers that jansson may
 * not write as they were written (json_digits.h). */
json_t *json_reader_load_digits(const char *text, size_t length, size_t flags, JsonDigits *digits,
                                json_error_t *where);

#endif
