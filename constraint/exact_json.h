/* JSON whose numbers keep every digit.
 *
 * A schema compares numbers as decimals (docs/shapes.md), but jansson keeps 64 bits of an integer
 * and a double of everything else. exact_json_load therefore notes, beside the values, the digits
 * of the numbers that these may not hold. */
#ifndef CONSTRAINT_EXACT_JSON_H
#define CONSTRAINT_EXACT_JSON_H

#include <jansson.h>

#include "base/status.h"

/* Bytes for a number without an exponent and its end: those of all doubles, and more. */
enum { EXACT_DECIMAL_SIZE = 800 };

/* Parses JSON of any type, without duplicate keys. *digits is an object that gives, by the address
 * of a number ("%p"), its decimal without an exponent; numbers that it lacks are exact as they are.
 * It is NULL where it would be empty. Numbers with more digits than EXACT_DECIMAL_SIZE are errors.
 * The caller frees both with json_decref; *digits means nothing once *json is freed. */
Status exact_json_load(const char *text, size_t length, json_t **json, json_t **digits,
                       Error *error);

/* Writes a number as a decimal: of `digits` (which may be NULL) where it is noted there, else the
 * shortest that reads back as the same double. */
void exact_json_decimal(const json_t *digits, const json_t *number, char out[EXACT_DECIMAL_SIZE]);

/* Compares two decimals as exact_json_decimal writes them: below 0, 0, or above 0. */
int exact_json_compare(const char *x, const char *y);

/* Rewrites every real in a JSON text to the shortest form that reads back as the same double.
 * json_dumps writes 0.1 as 0.10000000000000001, which exact_json_load would take at its word. */
void exact_json_shorten(char *text);

/* Whether the text may have numbers that exact_json_load would note. */
bool exact_json_has_long_numbers(const char *text, size_t length);

/* Finds a number within `value` of which a double is not the very decimal, and writes it to `out`;
 * false: there is none. `digits` is that of exact_json_load. */
bool exact_json_find_rounded(const json_t *value, const json_t *digits,
                             char out[EXACT_DECIMAL_SIZE]);

#endif
