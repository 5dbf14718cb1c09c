/* JSON whose numbers keep every digit.
 *
 * A schema compares numbers as decimals (docs/shapes.md), and every digit counts. */
#ifndef CONSTRAINT_EXACT_JSON_H
#define CONSTRAINT_EXACT_JSON_H

#include <jansson.h>

#include "base/status.h"
#include "json/json_digits.h"

/* Bytes for a number without an exponent, with its NUL: enough for every double. */
enum { EXACT_DECIMAL_SIZE = 800 };

/* Parses JSON of any type, without duplicate keys; *digits has the digits of its numbers
 * (json_digits.h). Numbers with more digits than EXACT_DECIMAL_SIZE are errors. The caller frees
 * both with json_decref. */
Status exact_json_load(const char *text, size_t length, json_t **json, JsonDigits **digits,
                       Error *error);

/* Writes a number as a decimal: of `digits` (which may be NULL) where it is noted there, else the
 * shortest that reads back as the same double. */
void exact_json_decimal(const JsonDigits *digits, const json_t *number,
                        char out[EXACT_DECIMAL_SIZE]);

/* Compares two decimals as exact_json_decimal writes them: below 0, 0, or above 0. */
int exact_json_compare(const char *x, const char *y);

#endif
