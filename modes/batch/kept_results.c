#include "modes/batch/kept_results.h"

#include <stdlib.h>
#include <string.h>

#include "modes/batch/json_prefix.h"
#include "modes/batch/shard.h"
#include "base/base64.h"

/* Whether the line lacks only its newline. */
static bool is_whole(const char *line, size_t length) {
    ResultLine result;
    Shard shard;
    Error error;
    if (result_read(line, length, &result, &error) == STATUS_OK) return true;
    bool is_header = shard_read(line, length, &shard);
    if (is_header) shard_free(&shard);
    return is_header;
}

bool kept_results_torn(const char *line, size_t length) {
    static const char *const starts[] = {"{\"id\": ", "{\"line\": ", SHARD_HEADER_START};
    /* A power cut can leave zeros where blocks were allocated and never written. */
    while (length > 0 && line[length - 1] == '\0') length--;
    bool starts_as_ours = length == 0;
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++) {
        size_t n = strlen(starts[i]);
        starts_as_ours |= memcmp(line, starts[i], length < n ? length : n) == 0;
    }
    if (!starts_as_ours || length == 0) return starts_as_ours;
    return json_prefix_is_cut(line, length) || is_whole(line, length);
}

Status kept_results_read(const char *line, size_t length, bool terminated, ResultLine *result,
                         Error *error) {
    Status status = result_read(line, length, result, error);
    if (status != STATUS_OK || terminated) return status;
    return error_set(error, "a result without the end of its line");
}

Status kept_results_check(const char *bytes, size_t n, size_t first, bool last,
                          const char *fingerprint, size_t *whole, Error *error) {
    ResultLine result;
    *whole = 0;
    for (size_t number = first; *whole < n; number++) {
        const char *line = bytes + *whole, *newline = memchr(line, '\n', n - *whole);
        size_t length = newline ? (size_t)(newline - line) : n - *whole;
        if (!newline && (!last || kept_results_torn(line, length))) return STATUS_OK;
        if (kept_results_read(line, length, newline != NULL, &result, error) != STATUS_OK)
            return error_prefix(error, "line %zu", number);
        if (strcmp(result.fingerprint, fingerprint) != 0)
            return error_set(error, "line %zu is of another model or other options: %s, not %s",
                             number, result.fingerprint, fingerprint);
        *whole += length + 1;
    }
    return STATUS_OK;
}

Status kept_results_answer(const Control *control, const char *fingerprint, json_t *result,
                           Error *error) {
    size_t n = json_string_length(control->text), length, whole;
    char *bytes = malloc(n / 4 * 3 + 1);
    Status status = STATUS_OK;
    if (!bytes)
        status = error_set(error, "no memory for %zu bytes of results", n);
    else if (!base64_decode(json_string_value(control->text), n, bytes, &length))
        status = error_set(error, "'results' must be bytes in base64");
    else
        status = kept_results_check(bytes, length, control->line, control->last, fingerprint,
                                    &whole, error);
    free(bytes);
    if (status == STATUS_OK) json_object_set_new(result, "whole", json_integer((json_int_t)whole));
    return status;
}
