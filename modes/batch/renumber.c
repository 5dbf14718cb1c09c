#include "modes/batch/renumber.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json/json_reader.h"
#include "modes/batch/result.h"
#include "modes/batch/result_id.h"

/* From the request's key at one number to its key at another, in a result's text. */
typedef struct Renumbering {
    RecordKey from, to;
    char *text; /* NUL-terminated; a JSON text has no NUL inside */
} Renumbering;

/* Puts `new` in the place of every `old`, which has the same length. */
static void exchange(char *text, const char *old, const char *new) {
    for (char *at = text; (at = strstr(at, old)); at += strlen(old)) memcpy(at, new, strlen(old));
}

/* The 32 digits at the end of the ids in OpenAI's results. */
static void exchange_ids(const Renumbering *r, const char *fingerprint) {
    char old[RESULT_ID_BYTES], new[RESULT_ID_BYTES];
    result_id(old, "", fingerprint, r->from);
    result_id(new, "", fingerprint, r->to);
    exchange(r->text, old, new);
}

/* Replaces the ids of the tool calls in one choice, or in its message, by the ids that they have at
 * the new number. */
static void exchange_calls(const Renumbering *r, const json_t *choice, size_t index) {
    const json_t *message = json_object_get(choice, "message");
    size_t n = json_array_size(json_object_get(message ? message : choice, "tool_calls"));
    for (size_t i = 0; i < n; i++) {
        char id[RESULT_ID_CALL_BYTES], old[32], new[32];
        result_id_call(id, r->from, index, i);
        snprintf(old, sizeof old, "\"id\": \"%s\"", id);
        result_id_call(id, r->to, index, i);
        snprintf(new, sizeof new, "\"id\": \"%s\"", id);
        exchange(r->text, old, new);
    }
}

static void exchange_all(const Renumbering *r, const json_t *json) {
    const json_t *body = json_object_get(json_object_get(json, "response"), "body");
    const json_t *holder = json_is_object(body) ? body : json, *choice;
    const json_t *choices = json_object_get(holder, "choices");
    const char *fingerprint = json_string_value(json_object_get(holder, "system_fingerprint"));
    size_t i;
    if (fingerprint) exchange_ids(r, fingerprint);
    if (!choices) exchange_calls(r, json, 0);
    json_array_foreach(choices, i, choice) {
        exchange_calls(r, choice, i);
    }
}

/* Returns the text with another number; NULL: no memory, or the number does not stand there as
 * result_put_line writes it. Inside a string its quotes would have backslashes. */
static char *replace_number(const char *text, size_t old, size_t new, const char *hash) {
    char place[128], *replaced = NULL;
    snprintf(place, sizeof place, "\"line\": %zu, \"line_hash\": \"%.16s\"", old, hash);
    const char *at = strstr(text, place);
    if (!at || asprintf(&replaced, "%.*s\"line\": %zu, \"line_hash\": \"%.16s\"%s",
                        (int)(at - text), text, new, hash, at + strlen(place)) < 0)
        return NULL;
    return replaced;
}

char *renumber_result(const char *line, size_t length, size_t number) {
    json_t *json = json_reader_load_digits(line, length, JSON_ALLOW_NUL, NULL, NULL);
    const json_t *old = json_object_get(json, "line");
    const char *hash = json_string_value(json_object_get(json, "line_hash"));
    char *renumbered = NULL;
    if (json_is_integer(old) && hash) {
        size_t from = (size_t)json_integer_value(old);
        uint64_t bits = strtoull(hash, NULL, 16);
        Renumbering r = {.from = record_key_of_line(from, bits),
                         .to = record_key_of_line(number, bits),
                         .text = strndup(line, length)};
        if (r.text) exchange_all(&r, json);
        if (r.text) renumbered = replace_number(r.text, from, number, hash);
        free(r.text);
    }
    json_decref(json);
    return renumbered;
}
