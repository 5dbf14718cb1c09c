#include "batch/renumber.h"

#include <stdlib.h>
#include <string.h>

#include "batch/result.h"
#include "batch/result_id.h"

/* From one number to another. */
typedef struct Renumbering {
    RequestKey from, to;
    const char *fingerprint;
    bool failed; /* no memory */
} Renumbering;

/* Replaces the text of a field where it is `old`: other ids do not depend on the number. */
static void replace(Renumbering *r, const json_t *object, const char *name, const char *old,
                    const char *new) {
    json_t *value = json_object_get(object, name);
    const char *text = json_string_value(value);
    if (text && strcmp(text, old) == 0 && json_string_set(value, new) != 0) r->failed = true;
}

static void renumber_id(Renumbering *r, const json_t *object, const char *name,
                        const char *prefix) {
    char old[RESULT_ID_BYTES], new[RESULT_ID_BYTES];
    result_id(old, prefix, r->fingerprint, r->from);
    result_id(new, prefix, r->fingerprint, r->to);
    replace(r, object, name, old, new);
}

/* The calls in one choice, or in the message that it holds. */
static void renumber_calls(Renumbering *r, const json_t *choice, size_t index) {
    const json_t *message = json_object_get(choice, "message"), *call;
    size_t i;
    json_array_foreach(json_object_get(message ? message : choice, "tool_calls"), i, call) {
        char old[RESULT_ID_CALL_BYTES], new[RESULT_ID_CALL_BYTES];
        result_id_call(old, r->from, index, i);
        result_id_call(new, r->to, index, i);
        replace(r, call, "id", old, new);
    }
}

static void renumber_ids(Renumbering *r, const json_t *json) {
    const json_t *response = json_object_get(json, "response");
    const json_t *body = json_object_get(response, "body");
    const json_t *holder = json_is_object(body) ? body : json, *choice;
    const json_t *choices = json_object_get(holder, "choices");
    size_t i;
    r->fingerprint = json_string_value(json_object_get(holder, "system_fingerprint"));
    if (!r->fingerprint) return;
    renumber_id(r, json, "id", RESULT_ID_BATCH);
    renumber_id(r, response, "request_id", RESULT_ID_REQUEST);
    renumber_id(r, body, "id", RESULT_ID_CHAT);
    renumber_id(r, body, "id", RESULT_ID_COMPLETION);
    if (!choices) renumber_calls(r, json, 0);
    json_array_foreach(choices, i, choice) {
        renumber_calls(r, choice, i);
    }
}

char *result_renumber(const char *line, size_t length, size_t number) {
    json_t *json = json_loadb(line, length, JSON_ALLOW_NUL, NULL);
    json_t *old = json_object_get(json, "line");
    const char *hash = json_string_value(json_object_get(json, "line_hash"));
    char *renumbered = NULL;
    if (json_is_integer(old) && hash) {
        uint64_t bits = strtoull(hash, NULL, 16);
        Renumbering r = {.from = request_key_of_line((size_t)json_integer_value(old), bits),
                         .to = request_key_of_line(number, bits)};
        renumber_ids(&r, json);
        json_integer_set(old, (json_int_t)number);
        renumbered = r.failed ? NULL : result_dump(json);
    }
    json_decref(json);
    return renumbered;
}
