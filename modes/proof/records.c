#include "modes/proof/records.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "json/json_reader.h"
#include "json/json_text.h"
#include "modes/proof/difference.h"
#include "modes/proof/report.h"
#include "system/text_file.h"

/* One recorded result: a line of the file. */
typedef struct Record {
    bool is_named; /* it says which request it answers; otherwise that is the line of its number */
    RecordKey key; /* of the request; not named: of the record's line number */
    size_t begin, length; /* in check->bytes */
    size_t line;
    bool found;
} Record;

struct Records {
    const char *name;
    int fd;
    char *bytes;
    Record *records; /* sorted by their keys */
    size_t n, capacity, n_told;
    Output output;
    bool writes, completes;
    Report report; /* how many results are the same */
};

/* ---- The file --------------------------------------------------------------------------------
 */

Status records_open(Records **out, const char *results, const char *output, Error *error) {
    Records *c = calloc(1, sizeof *c);
    if (!c) return error_set(error, "no memory for recorded results");
    *out = c;
    c->name = results;
    c->output.fd = -1;
    c->fd = open(results, O_RDONLY | O_CLOEXEC);
    if (c->fd < 0) return error_set(error, "%s: %s", results, strerror(errno));
    c->writes = output != NULL;
    return output ? output_open(&c->output, output, error) : STATUS_OK;
}

void records_complete(Records *c) {
    c->completes = true;
}

void records_close(Records *c) {
    if (!c) return;
    if (c->fd >= 0) close(c->fd);
    if (c->writes) output_close(&c->output);
    free(c->bytes);
    free(c->records);
    free(c);
}

static int by_key(const void *a, const void *b) {
    const Record *one = a, *two = b;
    const RecordKey *x = &one->key, *y = &two->key;
    if (one->is_named != two->is_named) return one->is_named - two->is_named;
    if (x->high != y->high) return x->high < y->high ? -1 : 1;
    return (x->low > y->low) - (x->low < y->low);
}

static Status add_record(Records *c, const char *line, size_t length, size_t number, Error *error) {
    Record record = {.begin = (size_t)(line - c->bytes), .length = length, .line = number};
    JsonDigits *digits = json_digits_new();
    if (!digits) return error_set(error, "%s: no memory for its lines", c->name);
    json_t *json = record_parse(line, length, digits, error);
    record.is_named = json && record_key(json, digits, &record.key);
    json_digits_free(digits);
    if (!json) return error_prefix(error, "%s: line %zu", c->name, number);
    json_decref(json);
    if (!record.is_named) record.key = record_key_of_line(number, 0);
    if (!array_reserve(&c->records, &c->capacity, c->n + 1, sizeof *c->records))
        return error_set(error, "%s: no memory for its lines", c->name);
    c->records[c->n++] = record;
    return STATUS_OK;
}

static Status split_lines(Records *c, size_t length, Error *error) {
    size_t number = 0;
    for (size_t begin = 0; begin < length;) {
        const char *line = c->bytes + begin, *newline = memchr(line, '\n', length - begin);
        size_t n = newline ? (size_t)(newline - line) : length - begin;
        number++;
        begin += n + 1;
        if (json_line_is_blank(line, n)) continue;
        if (add_record(c, line, n, number, error) != STATUS_OK) return STATUS_FAILED;
    }
    if (c->n > 0) qsort(c->records, c->n, sizeof *c->records, by_key);
    for (size_t i = 1; i < c->n; i++)
        if (by_key(&c->records[i - 1], &c->records[i]) == 0)
            return error_set(error, "%s: lines %zu and %zu are results of the same request",
                             c->name, c->records[i - 1].line, c->records[i].line);
    return STATUS_OK;
}

Status records_read(Records *c, const volatile sig_atomic_t *interrupted, Error *error) {
    static const size_t most = (size_t)1 << 31;
    size_t length;
    Status status = text_file_read(c->fd, c->name, most, interrupted, &c->bytes, &length, error);
    return status == STATUS_OK ? split_lines(c, length, error) : status;
}

static json_t *records_parse(const Records *c, const Record *record, JsonDigits *digits) {
    return json_reader_load_digits(c->bytes + record->begin, record->length, JSON_ALLOW_NUL, digits,
                                   NULL);
}

json_t *records_find(Records *c, RecordKey key, size_t line) {
    const Record wanted[] = {{.is_named = true, .key = key}, {.key = record_key_of_line(line, 0)}};
    Record *found = NULL;
    for (size_t i = 0; i < 2 && c->n > 0 && !found; i++)
        found = bsearch(&wanted[i], c->records, c->n, sizeof wanted[i], by_key);
    if (!found || found->found) return NULL;
    found->found = true;
    return records_parse(c, found, NULL);
}

/* ---- What a record says of one text ------------------------------------------------------------
 */

RecordedText record_text(const json_t *result, size_t index) {
    const json_t *body = json_object_get(json_object_get(result, "response"), "body");
    const json_t *list = json_object_get(body ? body : result, "choices");
    const json_t *choice = list ? json_array_get(list, index) : index == 0 ? result : NULL;
    const json_t *message = json_object_get(choice, "message"), *parts = message ? message : choice;
    return (RecordedText){.content = json_object_get(parts, message ? "content" : "text"),
                          .reasoning = json_object_get(parts, "reasoning_content"),
                          .bytes = json_object_get(parts, "bytes")};
}

void record_put_bytes(const json_t *list, TextBuffer *text) {
    const json_t *item;
    size_t i;
    json_array_foreach(list, i, item) {
        char byte = (char)(unsigned char)(json_integer_value(item) & 0xFF);
        text_put(text, &byte, 1, 0);
    }
}

/* ---- Comparing ----------------------------------------------------------------------------------
 */

/* Fields that name the run; docs/check.md lists them. */
static const char *const native_run_fields[] = {"system_fingerprint", NULL};
static const char *const openai_run_fields[] = {"id",
                                                "system_fingerprint",
                                                "response.request_id",
                                                "response.body.id",
                                                "response.body.object",
                                                "response.body.created",
                                                "response.body.model",
                                                "response.body.system_fingerprint",
                                                NULL};

/* Copies one difference of a comparison into the report. Where both values are texts (or "bytes",
 * a text as numbers) it adds excerpts from the place where they part. */
static void put_difference(json_t *report, const json_t *difference) {
    const json_t *expected = json_object_get(difference, "expected"),
                 *got = json_object_get(difference, "got");
    TextBuffer a = {0}, b = {0};
    json_object_update(report, (json_t *)difference);
    if (json_is_array(expected) && json_is_array(got)) { /* "bytes" */
        record_put_bytes(expected, &a);
        record_put_bytes(got, &b);
    }
    if (a.length + b.length > 0) {
        difference_put_texts(report, a.bytes ? a.bytes : "", a.length, b.bytes ? b.bytes : "",
                             b.length);
    } else if (json_is_string(expected) && json_is_string(got)) {
        difference_put_texts(report, json_string_value(expected), json_string_length(expected),
                             json_string_value(got), json_string_length(got));
    }
    text_free(&a);
    text_free(&b);
}

Verdict records_compare(Records *c, json_t *report, const json_t *recorded, const char *line,
                        bool openai) {
    json_t *got =
        line ? json_reader_load_digits(line, strlen(line), JSON_ALLOW_NUL, NULL, NULL) : NULL;
    Verdict verdict = VERDICT_DIFFERENT;
    json_object_set_new(report, "same", json_false());
    if (!recorded) {
        json_object_set_new(report, "error", json_string("no result is recorded"));
    } else if (got) {
        Comparison all =
            comparison_of("", recorded, got, openai ? openai_run_fields : native_run_fields);
        verdict = comparison_verdict(&all);
        json_object_set_new(report, "same", verdict_json(verdict));
        if (verdict == VERDICT_DIFFERENT)
            put_difference(report, json_array_get(all.differences, 0));
        comparison_put_names(&all, report);
        comparison_free(&all);
    }
    json_decref(got);
    c->report.n_of[verdict]++;
    return verdict;
}

json_t *records_unasked(Records *c, JsonDigits *digits) {
    while (c->n_told < c->n && c->records[c->n_told].found) c->n_told++;
    if (c->n_told == c->n) return NULL;
    const Record *record = &c->records[c->n_told++];
    json_t *json = records_parse(c, record, digits), *report = json_object();
    static const char *const keys[] = {"custom_id", "id", "line", "line_hash"};
    bool has_custom = json_object_get(json, "custom_id") != NULL;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (json_object_get(json, keys[i]) && !(has_custom && i == 1))
            json_object_set(report, keys[i], json_object_get(json, keys[i]));
    json_object_set_new(report, "same", json_false());
    json_object_set_new(report, "error", json_string("no request asks for this result"));
    json_decref(json);
    c->report.n_of[VERDICT_DIFFERENT]++;
    return report;
}

/* ---- The results as they should be -------------------------------------------------------------
 */

bool records_writes(const Records *c) {
    return c->writes;
}

bool records_completes(const Records *c) {
    return c->writes || c->completes;
}

Status records_write(Records *c, const char *line, Error *error) {
    if (!c->writes) return STATUS_OK;
    Status status = output_write(&c->output, line, strlen(line), error);
    return status == STATUS_OK ? output_write(&c->output, "\n", 1, error) : status;
}

Status records_finish(Records *c, Error *error) {
    return c->writes ? output_finish(&c->output, error) : STATUS_OK;
}

Status records_end(const Records *c, Error *error) {
    return report_end(&c->report, NULL, "result", error);
}
