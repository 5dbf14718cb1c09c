#include "modes/batch/csv_shard.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "json/json_reader.h"
#include "system/line_reader.h"

/* Sets *begin to where the first row begins at or after the byte `at`, or to the table's end.
 * `csv` is new, and `size` the table's. */
static Status find_row(Csv *csv, int fd, const char *name, uint64_t at, uint64_t size,
                       const volatile sig_atomic_t *interrupted, uint64_t *begin, Error *error) {
    LineReader reader;
    line_reader_init(&reader, fd, name, "--batch");
    Status status = line_reader_range(&reader, 0, size, error);
    *begin = size;
    while (status == STATUS_OK) {
        LineState state = LINE_NONE;
        const char *line;
        size_t length;
        uint64_t offset = reader.offset;
        if (csv_row_begins(csv) && offset >= at) {
            *begin = offset;
            break;
        }
        if (*interrupted) status = STATUS_INTERRUPTED;
        if (status == STATUS_OK)
            status = line_reader_next(&reader, true, interrupted, &state, &line, &length, error);
        if (status != STATUS_OK || state == LINE_NONE) break;
        line_reader_trim(&reader, false, &line, &length);
        if (state == LINE_TOO_LONG)
            status = error_set(error, "%s: line %zu is longer than %d bytes", name, reader.number,
                               LINE_MOST_BYTES);
        else
            status = csv_pass(csv, line, length, error);
    }
    line_reader_free(&reader);
    return status;
}

/* What becomes of a row, as text. */
static Status describe(Shard *s, const CsvPrompt *prompt, Error *error) {
    json_t *json = json_pack("{s:s%, s:b}", "prompt", prompt->template, prompt->length, "messages",
                             prompt->messages);
    if (json && prompt->id) json_object_set_new(json, "id", json_string(prompt->id));
    s->table = json ? json_dumps(json, JSON_COMPACT) : NULL;
    json_decref(json);
    return s->table ? STATUS_OK : error_set(error, "no memory for a part, or it is not UTF-8");
}

Status csv_shard_locate(Shard *s, const CsvPrompt *prompt, int fd, const char *name, Csv *csv,
                        const volatile sig_atomic_t *interrupted, Error *error) {
    struct stat info;
    Csv *other = NULL;
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode))
        return error_set(error, "%s: not a file, in which --shard could go to its part", name);
    uint64_t size = (uint64_t)info.st_size;
    s->end = size;
    Status status = describe(s, prompt, error);
    if (status == STATUS_OK && s->part > 1)
        status = find_row(csv, fd, name, shard_share(size, s->part - 1, s->of), size, interrupted,
                          &s->begin, error);
    csv_rewind(csv); /* a row whose quote is never closed belongs to the part where it begins */
    if (status == STATUS_OK && s->part < s->of) {
        status = csv_open(&other, prompt, name, error);
        if (status == STATUS_OK)
            status = find_row(other, fd, name, shard_share(size, s->part, s->of), size, interrupted,
                              &s->end, error);
        csv_close(other);
    }
    return status == STATUS_OK
               ? shard_hash(fd, name, s->begin, s->end, interrupted, &s->hash, error)
               : status;
}

Status csv_shard_open(const Shard *s, const char *name, Csv **csv, Error *error) {
    json_t *json = json_reader_load(s->table, strlen(s->table), JSON_ALLOW_NUL, NULL);
    const json_t *template = json_object_get(json, "prompt");
    const CsvPrompt prompt = {.template = json_string_value(template),
                              .length = json_string_length(template),
                              .messages = json_is_true(json_object_get(json, "messages")),
                              .id = json_string_value(json_object_get(json, "id"))};
    Status status = json_is_string(template)
                        ? csv_open(csv, &prompt, name, error)
                        : error_set(error, "a part's first line does not say what became of a row");
    json_decref(json);
    return status;
}
