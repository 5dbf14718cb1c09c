/* Reading JSON of strangers into jansson's values, where memory may run out and numbers of any size
 * stand.
 *
 * This is the only reader of the program (scripts/check-texts). jansson's own must never see a
 * failed allocation: it drops the byte that it could not store and then writes past the end of the
 * shorter buffer (2.14, lex_scan_string after strbuffer_append_byte failed). It also refuses what
 * Python writes and loses digits. This one takes the same flags, makes the same values and gives
 * the same messages as json_loadb of jansson 2.14, except that it refuses a zero byte after a
 * number or a word, which jansson passes over (2.14, stream_get takes it for the end of its
 * buffer); tests/test_json_reader.c compares them. It has one buffer, reserved before it begins,
 * for the longest text that the document can hold. */
#ifndef JSON_READER_H
#define JSON_READER_H

#include <jansson.h>

#include "json/json_digits.h"

/* Further flags, beside jansson's. */
enum {
    /* Half of a surrogate pair (\ud800), as Python writes it, reads as U+FFFD. */
    JSON_READER_LONE_SURROGATES = 1 << 16,
    /* Only whole numbers are noted. */
    JSON_READER_WHOLE_NUMBERS = 1 << 17,
    /* What Python writes and JSON lacks: Infinity and -Infinity read as an empty list, and NaN as
     * an empty object, which are not numbers and not null, as an absent member may be; and an
     * integer that 64 bits do not hold (a tokenizer without a limit has a model_max_length of 1e30
     * in digits) as the nearest double, or as an empty list where that is infinite. */
    JSON_READER_PYTHON = 1 << 18
};

/* As json_loadb(text, length, flags, where) of the flags JSON_REJECT_DUPLICATES, JSON_DECODE_ANY,
 * JSON_DISABLE_EOF_CHECK, JSON_DECODE_INT_AS_REAL and JSON_ALLOW_NUL, and of those above; `where`
 * may be NULL. NULL with json_error_out_of_memory: memory ran out, whatever the text is. */
json_t *json_reader_load(const char *text, size_t length, size_t flags, json_error_t *where);

/* The text of a string that is compared with names of ours or passed on as one; NULL for any other
 * value, and for a string with a zero byte ("text\u0000"), which C's functions would take for the
 * shorter one. */
const char *json_reader_word(const json_t *value);

/* The same for numbers of any size: what 64 bits or a double do not hold is the nearest finite
 * double. `digits` (NULL: nobody asks) gets the digits of all numbers that jansson may
 * not write as they were written (json_digits.h). */
json_t *json_reader_load_digits(const char *text, size_t length, size_t flags, JsonDigits *digits,
                                json_error_t *where);

#endif
