/* Which request a recorded result answers. A result names its request by the id, or by the line's
 * number and a hash of its bytes. */
#ifndef RECORD_KEY_H
#define RECORD_KEY_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "json/json_digits.h"

typedef struct RecordKey {
    uint64_t low, high;
} RecordKey;

#define DUPLICATE_ID "duplicate_id" /* the code of an error whose request has another's id */

/* The key of an id, a string or a whole number; `digits` has the digits of numbers beyond 64 bits
 * (json/json_digits.h; NULL: there are none). */
RecordKey record_key_of_id(const json_t *id, const JsonDigits *digits);
RecordKey record_key_of_line(size_t line, uint64_t hash);

/* The key of the request that a result answers; false: the result does not say. `digits` as
 * record_parse fills it. */
bool record_key(const json_t *result, const JsonDigits *digits, RecordKey *key);

/* Parses a line of results: a new reference, an object. NULL: it is none, or has a key twice.
 * `digits` (may be NULL) gets the digits of whole numbers beyond 64 bits. */
json_t *record_parse(const char *line, size_t length, JsonDigits *digits, Error *error);

#endif
