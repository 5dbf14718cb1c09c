#include "modes/proof/record_key.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "json/json_digits.h"
#include "json/json_reader.h"

static RecordKey key_of(const char *kind, const void *bytes, size_t n) {
    XXH128_hash_t hash = XXH3_128bits_withSeed(bytes, n, (unsigned char)kind[0]);
    return (RecordKey){hash.low64, hash.high64};
}

RecordKey record_key_of_id(const json_t *id, const JsonDigits *digits) {
    const char *written = json_is_real(id) ? json_digits_find(digits, id) : NULL;
    if (json_is_string(id)) return key_of("s", json_string_value(id), json_string_length(id));
    if (written) return key_of("i", written, strlen(written));
    json_int_t number = json_integer_value(id);
    return key_of("i", &number, sizeof number);
}

RecordKey record_key_of_line(size_t line, uint64_t hash) {
    const uint64_t both[] = {line, hash};
    return key_of("l", both, sizeof both);
}

/* Whether the value is a whole number of any size. */
static bool is_whole(const json_t *id, const JsonDigits *digits) {
    const char *written = json_digits_find(digits, id);
    return json_is_integer(id) || (written && json_digits_are_whole(written));
}

bool record_key(const json_t *result, const JsonDigits *digits, RecordKey *key) {
    const json_t *custom = json_object_get(result, "custom_id");
    const json_t *id = custom && !json_is_null(custom) ? custom : json_object_get(result, "id");
    const json_t *number = json_object_get(result, "line");
    const char *hash = json_string_value(json_object_get(result, "line_hash"));
    bool openai = custom != NULL, has_line = json_is_integer(number) && hash;
    const char *code = json_string_value(json_object_get(json_object_get(result, "error"), "code"));
    if (openai && id != custom) id = NULL; /* of the result, not of the request */
    if (code && strcmp(code, DUPLICATE_ID) == 0 && has_line) id = NULL;
    if (json_is_string(id) || is_whole(id, digits)) {
        *key = record_key_of_id(id, digits);
        return true;
    }
    if (has_line)
        *key = record_key_of_line((size_t)json_integer_value(number), strtoull(hash, NULL, 16));
    return has_line;
}

json_t *record_parse(const char *line, size_t length, JsonDigits *digits, Error *error) {
    const size_t flags = JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES | JSON_READER_WHOLE_NUMBERS;
    json_error_t where;
    json_t *json = json_reader_load_digits(line, length, flags, digits, &where);
    if (json_is_object(json)) return json;
    error_set(error, "not a result: %s", json ? "not a JSON object" : where.text);
    json_decref(json);
    return NULL;
}
