#include "batch/check.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "batch/batch_files.h"
#include "proof/compare.h"
#include "session/check_report.h"
#include "session/json_text.h"
#include "system/descriptor.h"

/* One recorded result: a line of the file. */
typedef struct Record {
    bool is_named;  /* it says which request it answers; otherwise that is the line of its number */
    RequestKey key; /* of the request; not named: of the record's line number */
    size_t begin, length; /* in check->bytes */
    size_t line;
    bool found;
} Record;

struct Check {
    const char *name;
    int fd;
    char *bytes;
    Record *records; /* sorted by their keys */
    size_t n, capacity, n_told;
    Output output;
    bool writes, completes;
    size_t n_of[VERDICT_DIFFERENT + 1]; /* results, by what came of them */
};

/* ---- The file --------------------------------------------------------------------------------
 */

Status check_open(Check **out, const char *results, const char *output, Error *error) {
    Check *c = calloc(1, sizeof *c);
    if (!c) return error_set(error, "no memory for recorded results");
    *out = c;
    c->name = results;
    c->output.fd = -1;
    c->fd = open(results, O_RDONLY | O_CLOEXEC);
    if (c->fd < 0) return error_set(error, "%s: %s", results, strerror(errno));
    c->writes = output != NULL;
    return output ? output_open(&c->output, output, error) : STATUS_OK;
}

void check_complete(Check *c) {
    c->completes = true;
}

void check_close(Check *c) {
    if (!c) return;
    if (c->fd >= 0) close(c->fd);
    if (c->writes) output_close(&c->output);
    free(c->bytes);
    free(c->records);
    free(c);
}

static int by_key(const void *a, const void *b) {
    const Record *one = a, *two = b;
    const RequestKey *x = &one->key, *y = &two->key;
    if (one->is_named != two->is_named) return one->is_named - two->is_named;
    if (x->high != y->high) return x->high < y->high ? -1 : 1;
    return (x->low > y->low) - (x->low < y->low);
}

static Status add_record(Check *c, const char *line, size_t length, size_t number, Error *error) {
    RequestKey key;
    bool has_key;
    if (result_key(line, length, &key, &has_key, error) != STATUS_OK)
        return error_prefix(error, "%s: line %zu", c->name, number);
    if (!has_key) key = request_key_of_line(number, 0);
    if (!array_reserve(&c->records, &c->capacity, c->n + 1, sizeof *c->records))
        return error_set(error, "%s: no memory for its lines", c->name);
    c->records[c->n++] = (Record){.is_named = has_key,
                                  .key = key,
                                  .begin = (size_t)(line - c->bytes),
                                  .length = length,
                                  .line = number};
    return STATUS_OK;
}

static Status split_lines(Check *c, size_t length, Error *error) {
    size_t number = 0;
    for (size_t begin = 0; begin < length;) {
        const char *line = c->bytes + begin, *newline = memchr(line, '\n', length - begin);
        size_t n = newline ? (size_t)(newline - line) : length - begin;
        number++;
        begin += n + 1;
        if (line_is_blank(line, n)) continue;
        if (add_record(c, line, n, number, error) != STATUS_OK) return STATUS_FAILED;
    }
    if (c->n > 0) qsort(c->records, c->n, sizeof *c->records, by_key);
    for (size_t i = 1; i < c->n; i++)
        if (by_key(&c->records[i - 1], &c->records[i]) == 0)
            return error_set(error, "%s: lines %zu and %zu are results of the same request",
                             c->name, c->records[i - 1].line, c->records[i].line);
    return STATUS_OK;
}

Status check_read(Check *c, const volatile sig_atomic_t *interrupted, Error *error) {
    static const size_t most = (size_t)1 << 31;
    size_t length;
    Status status = descriptor_read(c->fd, c->name, most, interrupted, &c->bytes, &length, error);
    return status == STATUS_OK ? split_lines(c, length, error) : status;
}

static json_t *parse(const Check *c, const Record *record) {
    return json_loadb(c->bytes + record->begin, record->length, JSON_ALLOW_NUL, NULL);
}

json_t *check_find(Check *c, const Request *request) {
    const Record wanted[] = {{.is_named = true, .key = request_key(request)},
                             {.key = request_key_of_line(request->line, 0)}};
    Record *found = NULL;
    for (size_t i = 0; i < 2 && c->n > 0 && !found; i++)
        found = bsearch(&wanted[i], c->records, c->n, sizeof wanted[i], by_key);
    if (!found || found->found) return NULL;
    found->found = true;
    return parse(c, found);
}

/* ---- What a record says of one text ------------------------------------------------------------
 */

/* The object of the index-th text in a result of either form. */
static const json_t *choice_of(const json_t *result, size_t index) {
    const json_t *body = json_object_get(json_object_get(result, "response"), "body");
    const json_t *list = json_object_get(body ? body : result, "choices");
    return list ? json_array_get(list, index) : index == 0 ? result : NULL;
}

static void put_bytes(const json_t *list, TextBuffer *text) {
    const json_t *item;
    size_t i;
    json_array_foreach(list, i, item) {
        char byte = (char)(unsigned char)(json_integer_value(item) & 0xFF);
        text_put(text, &byte, 1, 0);
    }
}

static void put_json_text(const json_t *string, TextBuffer *text) {
    if (json_is_string(string))
        text_put(text, json_string_value(string), json_string_length(string), 0);
}

/* Takes the prompt off the record of a text with echo; false: it does not begin with it. */
static bool drop_prompt(const Request *r, size_t index, TextBuffer *text) {
    const json_t *prompt =
        json_is_string(r->prompt) ? r->prompt : json_array_get(r->prompt, index / r->n);
    size_t n = json_string_length(prompt);
    if (!json_is_string(prompt) || text->length < n ||
        memcmp(text->bytes ? text->bytes : "", json_string_value(prompt), n) != 0)
        return false;
    if (n > 0) memmove(text->bytes, text->bytes + n, text->length - n);
    text->length -= n;
    return true;
}

void check_text(const Check *c, const json_t *recorded, const ResultMaker *maker, const Request *r,
                size_t index, CheckText *text) {
    const json_t *choice = choice_of(recorded, index);
    const json_t *message = json_object_get(choice, "message");
    const json_t *parts = message ? message : choice, *bytes = json_object_get(parts, "bytes");
    const json_t *content = json_object_get(parts, message ? "content" : "text");
    const json_t *reasoning = json_object_get(parts, "reasoning_content");
    *text = (CheckText){.whole = !check_writes(c) && !c->completes && r->options.n_stop == 0 &&
                                 json_is_string(content)};
    if (json_is_string(reasoning) && maker->answers && maker->answers->think_close) {
        if (!r->opened && maker->answers->think_open)
            text_put(&text->record, maker->answers->think_open, strlen(maker->answers->think_open),
                     0);
        put_json_text(reasoning, &text->record);
        text_put(&text->record, maker->answers->think_close, strlen(maker->answers->think_close),
                 0);
    }
    if (json_is_array(bytes)) {
        put_bytes(bytes, &text->record);
    } else {
        put_json_text(content, &text->record);
    }
    /* An answer to messages may have been taken apart, and U+FFFD may stand for anything. */
    bool replaced = !json_is_array(bytes) && text->record.length > 0 &&
                    memmem(text->record.bytes, text->record.length, "\xEF\xBF\xBD", 3);
    if (r->messages || replaced) text->whole = false;
    if (r->echo && !drop_prompt(r, index, &text->record)) text->whole = false;
    if (r->echo) text->whole = false;
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

/* Sets the first difference: "field", and where texts differ. */
static void put_difference(json_t *report, const json_t *difference) {
    const json_t *expected = json_object_get(difference, "expected"),
                 *got = json_object_get(difference, "got");
    TextBuffer a = {0}, b = {0};
    json_object_update(report, (json_t *)difference);
    if (json_is_array(expected) && json_is_array(got)) { /* "bytes" */
        put_bytes(expected, &a);
        put_bytes(got, &b);
    }
    if (a.length + b.length > 0) {
        check_report_texts(report, a.bytes ? a.bytes : "", a.length, b.bytes ? b.bytes : "",
                           b.length);
    } else if (json_is_string(expected) && json_is_string(got)) {
        check_report_texts(report, json_string_value(expected), json_string_length(expected),
                           json_string_value(got), json_string_length(got));
    }
    text_free(&a);
    text_free(&b);
}

/* {"id"} or {"line", "line_hash"}, as results have it. */
static json_t *report_head(const Request *r) {
    json_t *report = json_object();
    if (r->id) {
        json_object_set(report, r->is_native ? "id" : "custom_id", (json_t *)r->id);
    } else {
        result_put_line(report, r);
    }
    return report;
}

static char *dump(json_t *report) {
    char *line = report ? json_dumps(report, JSON_REAL_PRECISION(9)) : NULL;
    json_decref(report);
    return line;
}

/* The index of the text in whose object the difference lies that `report` names. */
static size_t differing_choice(const json_t *report) {
    const char *field = json_string_value(json_object_get(report, "field"));
    const char *list = field ? strstr(field, "choices[") : NULL;
    return list ? strtoul(list + strlen("choices["), NULL, 10) : 0;
}

/* A text that was not completed, because its record is known to be another. */
static void put_left(json_t *report, const ResultMaker *maker, const Divergence *divergences,
                     const CheckText *texts, size_t n) {
    size_t i = 0;
    while (i + 1 < n && !(divergences[i].found && texts[i].whole)) i++;
    if (n > 1) json_object_set_new(report, "choice", json_integer((json_int_t)i));
    json_object_set_new(report, "field", json_string("text"));
    check_report_divergence(report, &divergences[i], maker->tokenizer, texts[i].record.bytes,
                            texts[i].record.length);
}

char *check_compare(Check *c, const ResultMaker *maker, const Request *r, const json_t *recorded,
                    const char *line, const Divergence *divergences, const CheckText *texts,
                    size_t n, bool *same) {
    json_t *report = report_head(r), *got = line ? json_loads(line, JSON_ALLOW_NUL, NULL) : NULL;
    Verdict verdict = VERDICT_DIFFERENT;
    json_object_set_new(report, "same", json_false());
    if (!recorded) {
        json_object_set_new(report, "error", json_string("no result is recorded"));
    } else if (!line) {
        put_left(report, maker, divergences, texts, n);
    } else {
        Comparison all =
            comparison_of("", recorded, got, r->is_native ? native_run_fields : openai_run_fields);
        verdict = comparison_verdict(&all);
        json_object_set_new(report, "same", verdict_json(verdict));
        if (verdict == VERDICT_DIFFERENT) {
            put_difference(report, json_array_get(all.differences, 0));
            size_t i = differing_choice(report);
            if (i < n && divergences[i].found)
                check_report_token(report, &divergences[i], maker->tokenizer);
        }
        comparison_put_names(&all, report);
        comparison_free(&all);
    }
    json_decref(got);
    *same = verdict == VERDICT_SAME;
    c->n_of[verdict]++;
    return dump(report);
}

char *check_unasked(Check *c) {
    while (c->n_told < c->n && c->records[c->n_told].found) c->n_told++;
    if (c->n_told == c->n) return NULL;
    const Record *record = &c->records[c->n_told++];
    json_t *json = parse(c, record), *report = json_object();
    static const char *const keys[] = {"custom_id", "id", "line", "line_hash"};
    bool has_custom = json_object_get(json, "custom_id") != NULL;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (json_object_get(json, keys[i]) && !(has_custom && i == 1))
            json_object_set(report, keys[i], json_object_get(json, keys[i]));
    json_object_set_new(report, "same", json_false());
    json_object_set_new(report, "error", json_string("no request asks for this result"));
    json_decref(json);
    c->n_of[VERDICT_DIFFERENT]++;
    return dump(report);
}

/* ---- The results as they should be -------------------------------------------------------------
 */

bool check_writes(const Check *c) {
    return c->writes;
}

Status check_write(Check *c, const char *line, Error *error) {
    if (!c->writes) return STATUS_OK;
    Status status = output_write(&c->output, line, strlen(line), error);
    return status == STATUS_OK ? output_write(&c->output, "\n", 1, error) : status;
}

Status check_finish(Check *c, Error *error) {
    return c->writes ? output_finish(&c->output, error) : STATUS_OK;
}

size_t check_count(const Check *c, Verdict verdict) {
    return c->n_of[verdict];
}
