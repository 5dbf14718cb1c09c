/* Numbers of a JSON text as they were written.
 *
 * jansson keeps 64 bits of an integer and a double of everything else, and writes 1.50 as 1.5 and
 * 0.1 with 17 digits. What must come out as it came in is therefore read with
 * json_reader_load_digits, which notes the digits of such numbers, and written with
 * json_digits_dumps. */
#ifndef JSON_DIGITS_H
#define JSON_DIGITS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* Numbers and their digits. */
typedef struct JsonDigits JsonDigits;

/* NULL: no memory. */
JsonDigits *json_digits_new(void);

/* `digits` may be NULL. */
void json_digits_free(JsonDigits *digits);

/* Notes that `number` was written as text[n], which has no zero byte. `digits` holds a reference to
 * the number, so that no other value gets its address. False, and nothing changes: no memory. */
bool json_digits_note(JsonDigits *digits, json_t *number, const char *text, size_t n);

/* How the number was written; NULL: it is not noted, so json_dumps writes it as it was, or nobody
 * wrote it. `digits` may be NULL. The text stays until the next note. */
const char *json_digits_find(const JsonDigits *digits, const json_t *number);

/* How many numbers are noted; `digits` may be NULL. */
size_t json_digits_count(const JsonDigits *digits);

/* Number i of them, in the order in which they were noted, and how it was written. */
json_t *json_digits_at(const JsonDigits *digits, size_t i, const char **text);

/* Whether the text is of a whole number: without a point and an exponent. */
bool json_digits_are_whole(const char *text);

/* As json_dumps and json_dump_callback with JSON_ENCODE_ANY and the flags JSON_COMPACT and
 * JSON_REAL_PRECISION, but noted numbers come out as they were written. */
char *json_digits_dumps(const json_t *value, const JsonDigits *digits, size_t flags);
int json_digits_dump_callback(const json_t *value, const JsonDigits *digits,
                              json_dump_callback_t callback, void *data, size_t flags);

#endif
