#include "batch/check.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "batch/batch_files.h"
#include "session/check_report.h"
#include "system/descriptor.h"
#include "session/json_text.h"

/* One recorded result: a line of the file. */
typedef struct Record {
    RequestKey key;
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
    size_t n_differ;
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
    const RequestKey *x = &((const Record *)a)->key, *y = &((const Record *)b)->key;
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
    c->records[c->n++] =
        (Record){.key = key, .begin = (size_t)(line - c->bytes), .length = length, .line = number};
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
    /* A record that says of no request what it is belongs to the line with its number. */
    const Record wanted[] = {{.key = request_key(request)},
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

static bool is_ignored(const char *key) {
    static const char *const keys[] = {"id",         "custom_id", "line",  "line_hash",
                                       "request_id", "created",   "model", "system_fingerprint"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (strcmp(keys[i], key) == 0) return true;
    return false;
}

static bool is_nothing(const json_t *value) {
    return !value || json_is_null(value);
}

/* Sets "field" to the path of what differs. */
static void set_field(json_t *report, const char *path) {
    json_object_set_new(report, "field", json_string(path));
}

static bool compare(json_t *report, const char *path, const json_t *expected, const json_t *got);

/* The bytes of texts that are not UTF-8 say more than the texts; either may be missing. */
static bool same_bytes(json_t *report, const char *path, const json_t *expected,
                       const json_t *got) {
    TextBuffer a = {0}, b = {0};
    if (!json_is_array(expected) || !json_is_array(got)) return true;
    put_bytes(expected, &a);
    put_bytes(got, &b);
    char inner[256];
    snprintf(inner, sizeof inner, "%s%sbytes", path, path[0] ? "." : "");
    bool same = json_equal(expected, got);
    if (!same) {
        set_field(report, inner);
        same = check_report_texts(report, a.bytes, a.length, b.bytes, b.length);
    }
    text_free(&a);
    text_free(&b);
    return same;
}

static bool compare_objects(json_t *report, const char *path, const json_t *expected,
                            const json_t *got) {
    const char *key;
    json_t *value;
    char inner[256];
    if (!same_bytes(report, path, json_object_get(expected, "bytes"),
                    json_object_get(got, "bytes")))
        return false;
    json_object_foreach((json_t *)got, key, value) {
        const json_t *other = json_object_get(expected, key);
        if (is_ignored(key) || !other) continue; /* a record may hold the text alone */
        snprintf(inner, sizeof inner, "%s%s%s", path, path[0] ? "." : "", key);
        if (!compare(report, inner, other, value)) return false;
    }
    json_object_foreach((json_t *)expected, key, value) {
        if (is_ignored(key) || is_nothing(value) || json_object_get(got, key)) continue;
        snprintf(inner, sizeof inner, "%s%s%s", path, path[0] ? "." : "", key);
        set_field(report, inner);
        json_object_set(report, "expected", value);
        json_object_set_new(report, "got", json_null());
        return false;
    }
    return true;
}

static bool compare_arrays(json_t *report, const char *path, const json_t *expected,
                           const json_t *got) {
    size_t n = json_array_size(expected), n_got = json_array_size(got);
    for (size_t i = 0; i < n && i < n_got; i++) {
        char inner[256];
        snprintf(inner, sizeof inner, "%s[%zu]", path, i);
        if (!compare(report, inner, json_array_get(expected, i), json_array_get(got, i)))
            return false;
    }
    if (n == n_got) return true;
    set_field(report, path);
    json_object_set_new(report, "expected", json_integer((json_int_t)n));
    json_object_set_new(report, "got", json_integer((json_int_t)n_got));
    return false;
}

/* Compares what the record has with what the answer has; names the first difference. */
static bool compare(json_t *report, const char *path, const json_t *expected, const json_t *got) {
    if (json_is_object(expected) && json_is_object(got))
        return compare_objects(report, path, expected, got);
    if (json_is_array(expected) && json_is_array(got))
        return compare_arrays(report, path, expected, got);
    if (json_equal(expected, got) || (is_nothing(expected) && is_nothing(got))) return true;
    set_field(report, path);
    if (json_is_string(expected) && json_is_string(got))
        return check_report_texts(report, json_string_value(expected), json_string_length(expected),
                                  json_string_value(got), json_string_length(got));
    json_object_set(report, "expected", (json_t *)expected);
    json_object_set(report, "got", (json_t *)got);
    return false;
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

char *check_compare(Check *c, const ResultMaker *maker, const Request *r, const json_t *recorded,
                    const char *line, const Divergence *divergences, const CheckText *texts,
                    size_t n) {
    json_t *report = report_head(r), *got = NULL;
    bool same = false;
    json_object_set_new(report, "same", json_false());
    if (!recorded) {
        json_object_set_new(report, "error", json_string("no result is recorded"));
    } else if (!line) {
        size_t i = 0;
        while (i + 1 < n && !(divergences[i].found && texts[i].whole)) i++;
        if (n > 1) json_object_set_new(report, "choice", json_integer((json_int_t)i));
        json_object_set_new(report, "field", json_string("text"));
        check_report_divergence(report, &divergences[i], maker->tokenizer, texts[i].record.bytes,
                                texts[i].record.length);
    } else {
        got = json_loads(line, JSON_ALLOW_NUL, NULL);
        same = compare(report, "", recorded, got);
        size_t i = same ? 0 : differing_choice(report);
        if (!same && i < n && divergences[i].found)
            check_report_token(report, &divergences[i], maker->tokenizer);
    }
    json_decref(got);
    if (same) json_object_set_new(report, "same", json_true());
    c->n_differ += !same;
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
    c->n_differ++;
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

size_t check_n_differ(const Check *c) {
    return c->n_differ;
}
