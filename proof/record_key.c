#include "proof/record_key.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

static RecordKey key_of(const char *kind, const void *bytes, size_t n) {
    XXH128_hash_t hash = XXH3_128bits_withSeed(bytes, n, (unsigned char)kind[0]);
    return (RecordKey){hash.low64, hash.high64};
}

RecordKey record_key_of_id(const json_t *id) {
    if (json_is_string(id)) return key_of("s", json_string_value(id), json_string_length(id));
    json_int_t number = json_integer_value(id);
    return key_of("i", &number, sizeof number);
}

RecordKey record_key_of_line(size_t line, uint64_t hash) {
    const uint64_t both[] = {line, hash};
    return key_of("l", both, sizeof both);
}

bool record_key(const json_t *result, RecordKey *key) {
    const json_t *custom = json_object_get(result, "custom_id");
    const json_t *id = custom && !json_is_null(custom) ? custom : json_object_get(result, "id");
    const json_t *number = json_object_get(result, "line");
    const char *hash = json_string_value(json_object_get(result, "line_hash"));
    bool openai = custom != NULL, has_line = json_is_integer(number) && hash;
    const char *code = json_string_value(json_object_get(json_object_get(result, "error"), "code"));
    if (openai && id != custom) id = NULL; /* of the result, not of the request */
    if (code && strcmp(code, DUPLICATE_ID) == 0 && has_line) id = NULL;
    if (json_is_string(id) || json_is_integer(id)) {
        *key = record_key_of_id(id);
        return true;
    }
    if (has_line)
        *key = record_key_of_line((size_t)json_integer_value(number), strtoull(hash, NULL, 16));
    return has_line;
}

json_t *record_parse(const char *line, size_t length, Error *error) {
    json_error_t where;
    json_t *json = json_loadb(line, length, JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES, &where);
    if (json_is_object(json)) return json;
    error_set(error, "not a result: %s", json ? "not a JSON object" : where.text);
    json_decref(json);
    return NULL;
}
