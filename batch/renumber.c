#include "batch/renumber.h"

#include <stdlib.h>
#include <string.h>

#include "batch/result.h"
#include "batch/result_id.h"

/* Replaces the text of a field where it is `old`: other ids do not depend on the number. */
static void replace(json_t *object, const char *name, const char *old, const char *new) {
    const char *text = json_string_value(json_object_get(object, name));
    if (text && strcmp(text, old) == 0) json_object_set_new(object, name, json_string(new));
}

static void renumber_id(json_t *object, const char *name, const char *prefix,
                        const char *fingerprint, RequestKey from, RequestKey to) {
    char old[RESULT_ID_BYTES], new[RESULT_ID_BYTES];
    result_id(old, prefix, fingerprint, from);
    result_id(new, prefix, fingerprint, to);
    replace(object, name, old, new);
}

/* The calls in one choice, or in the message that it holds. */
static void renumber_calls(json_t *choice, size_t index, RequestKey from, RequestKey to) {
    json_t *message = json_object_get(choice, "message"), *call;
    size_t i;
    json_array_foreach(json_object_get(message ? message : choice, "tool_calls"), i, call) {
        char old[RESULT_ID_CALL_BYTES], new[RESULT_ID_CALL_BYTES];
        result_id_call(old, from, index, i);
        result_id_call(new, to, index, i);
        replace(call, "id", old, new);
    }
}

static void renumber_ids(json_t *json, RequestKey from, RequestKey to) {
    json_t *response = json_object_get(json, "response"), *body = json_object_get(response, "body");
    json_t *holder = json_is_object(body) ? body : json;
    json_t *choices = json_object_get(holder, "choices"), *choice;
    const char *fingerprint = json_string_value(json_object_get(holder, "system_fingerprint"));
    size_t i;
    if (!fingerprint) return;
    renumber_id(json, "id", RESULT_ID_BATCH, fingerprint, from, to);
    renumber_id(response, "request_id", RESULT_ID_REQUEST, fingerprint, from, to);
    renumber_id(body, "id", RESULT_ID_CHAT, fingerprint, from, to);
    renumber_id(body, "id", RESULT_ID_COMPLETION, fingerprint, from, to);
    if (!choices) renumber_calls(json, 0, from, to);
    json_array_foreach(choices, i, choice) {
        renumber_calls(choice, i, from, to);
    }
}

char *result_renumber(const char *line, size_t length, size_t number) {
    json_t *json = json_loadb(line, length, JSON_ALLOW_NUL, NULL);
    const json_t *old = json_object_get(json, "line");
    const char *hash = json_string_value(json_object_get(json, "line_hash"));
    char *renumbered = NULL;
    if (json_is_integer(old) && hash) {
        uint64_t bits = strtoull(hash, NULL, 16);
        renumber_ids(json, request_key_of_line((size_t)json_integer_value(old), bits),
                     request_key_of_line(number, bits));
        json_object_set_new(json, "line", json_integer((json_int_t)number));
        renumbered = result_dump(json);
    }
    json_decref(json);
    return renumbered;
}
