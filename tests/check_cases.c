#include "tests/check_cases.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <jansson.h>

#include "tests/fixture.h"
#include "tests/process.h"

static const char *const openings[] = {
    "Once upon a time", "The dog", "Lily and Tom", "One day", "\"Hello\", said the cat", ""};

/* The k-th request: its kind follows from the number. */
static json_t *request(size_t k) {
    json_t *r = json_object();
    char id[32];
    snprintf(id, sizeof id, "r%zu", k);
    json_object_set_new(r, "id", json_string(id));
    json_object_set_new(r, "prompt", json_string(openings[k % 6]));
    json_object_set_new(r, "max_tokens", json_integer((json_int_t)(8 + k * 7 % 60)));
    if (k % 4 == 0) json_object_set_new(r, "temperature", json_real(0.0));
    if (k % 5 == 1) json_object_set_new(r, "repetition_penalty", json_real(1.2));
    if (k % 5 == 2) json_object_set_new(r, "frequency_penalty", json_real(0.4));
    if (k % 6 == 3) json_object_set_new(r, "n", json_integer(2 + (json_int_t)(k % 3)));
    if (k % 7 == 4) json_object_set_new(r, "stop", json_pack("[s,s]", ".", " and"));
    if (k % 11 == 5) json_object_set_new(r, "regex", json_string("[ a-z]{10,60}\\."));
    if (k % 13 == 6) json_object_set_new(r, "echo", json_true());
    if (k % 17 == 7) json_object_set_new(r, "ignore_eos", json_true());
    return r;
}

static void write_lines(const char *path, json_t *list) {
    FILE *f = fopen(path, "w");
    json_t *item;
    size_t i;
    assert_non_null(f);
    json_array_foreach(list, i, item) {
        json_dumpf(item, f, JSON_COMPACT);
        fputc('\n', f);
    }
    assert_int_equal(fclose(f), 0);
}

static json_t *parse_lines(const char *text) {
    json_t *list = json_array();
    for (const char *line = text; *line;) {
        size_t n = strcspn(line, "\n");
        json_t *json = json_loadb(line, n, JSON_ALLOW_NUL, NULL);
        assert_non_null(json);
        json_array_append_new(list, json);
        line += n + (line[n] == '\n');
    }
    return list;
}

static json_t *read_lines(const char *path) {
    size_t length;
    char *text = file_read(path, &length);
    json_t *list = parse_lines(text);
    free(text);
    return list;
}

static Process run(const char *const *first, const char *const *more) {
    const char *argv[PROCESS_MAX_ARGUMENTS];
    size_t n = 0;
    for (; *first; first++) argv[n++] = *first;
    for (; more && *more; more++) argv[n++] = *more;
    argv[n] = NULL;
    return process_run(argv, NULL, 0);
}
#define RUN_MORE(more, ...) run((const char *const[]){"run", __VA_ARGS__, NULL}, more)

CheckCases check_cases_open(const char *model, size_t n) {
    CheckCases c = {.directory = fixture_directory(), .n = n};
    json_t *list = json_array();
    c.requests = fixture_path(c.directory, "requests.jsonl");
    c.results = fixture_path(c.directory, "results.jsonl");
    c.changed = fixture_path(c.directory, "changed.jsonl");
    for (size_t k = 0; k < n; k++) json_array_append_new(list, request(k));
    write_lines(c.requests, list);
    json_decref(list);
    Process p = RUN_MORE(NULL, model, "--batch", c.requests, "-o", c.results, "--ordered",
                         "--draft", "none");
    if (p.status != 0) fail_msg("%s", p.err);
    process_free(&p);
    return c;
}

void check_cases_close(CheckCases *c) {
    free(c->requests);
    free(c->results);
    free(c->changed);
    fixture_remove_directory(c->directory);
}

size_t check_cases_repeat(const CheckCases *c, const char *model, const char *const *more) {
    unlink(c->changed);
    Process p =
        RUN_MORE(more, model, "--batch", c->requests, "-o", c->changed, "--ordered", "--stats");
    if (p.status != 0) fail_msg("%s", p.err);
    size_t lengths[2], n_drafted = 0;
    char *texts[] = {file_read(c->results, &lengths[0]), file_read(c->changed, &lengths[1])};
    assert_int_equal(lengths[0], lengths[1]);
    assert_memory_equal(texts[0], texts[1], lengths[0]);
    for (const char *at = p.err; (at = strstr(at, "drafts:  ")); at++) {
        const char *colon = strchr(at + 9, ':');
        if (colon) n_drafted += strtoul(colon + 1, NULL, 10);
    }
    free(texts[0]);
    free(texts[1]);
    process_free(&p);
    return n_drafted;
}

void check_cases_same(const CheckCases *c, const char *model, const char *const *more) {
    Process p = RUN_MORE(more, model, "--batch", c->requests, "--check", c->results);
    if (p.status != 0) fail_msg("%s%s", p.err, p.out);
    json_t *reports = parse_lines(p.out), *report;
    size_t i;
    assert_int_equal(json_array_size(reports), c->n);
    json_array_foreach(reports, i, report) {
        assert_true(json_is_true(json_object_get(report, "same")));
    }
    json_decref(reports);
    process_free(&p);
}

/* The text of a result's first choice. */
static json_t *first_text(json_t *result) {
    json_t *choices = json_object_get(result, "choices");
    return json_object_get(choices ? json_array_get(choices, 0) : result, "text");
}

/* Replaces a letter of the text by another one; the byte's index, or -1: the text has none. */
static long change_byte(json_t *text, unsigned drawn) {
    size_t n = json_string_length(text);
    if (n == 0) return -1;
    char *bytes = malloc(n);
    memcpy(bytes, json_string_value(text), n);
    size_t at = drawn % n, tried = 0;
    while (tried < n && !(bytes[at] >= 'a' && bytes[at] < 'z')) at = (at + 1) % n, tried++;
    if (tried < n) bytes[at]++;
    json_string_setn(text, bytes, n);
    free(bytes);
    return tried < n ? (long)at : -1;
}

size_t check_cases_bytes(const CheckCases *c, const char *model, unsigned seed) {
    json_t *results = read_lines(c->results), *result;
    long *at = calloc(c->n, sizeof *at);
    size_t i, n_changed = 0;
    json_array_foreach(results, i, result) {
        at[i] = change_byte(first_text(result), (unsigned)i * 2654435761u + seed);
    }
    write_lines(c->changed, results);
    Process p = RUN_MORE(NULL, model, "--batch", c->requests, "--check", c->changed);
    assert_int_equal(p.status, 3);
    json_t *reports = parse_lines(p.out), *report;
    assert_int_equal(json_array_size(reports), c->n);
    json_array_foreach(reports, i, report) {
        bool same = json_is_true(json_object_get(report, "same"));
        assert_int_equal(same, at[i] < 0);
        if (at[i] < 0) continue;
        n_changed++;
        json_int_t byte = json_integer_value(json_object_get(report, "byte"));
        if (byte != at[i]) fail_msg("changed at %ld: %s", at[i], json_dumps(report, 0));
    }
    json_decref(reports);
    json_decref(results);
    process_free(&p);
    free(at);
    return n_changed;
}

/* The first byte at which two results' first texts differ; -1: they are the same. */
static long first_difference(json_t *a, json_t *b) {
    const char *x = json_string_value(first_text(a)), *y = json_string_value(first_text(b));
    size_t i = 0;
    while (x[i] && x[i] == y[i]) i++;
    return x[i] == y[i] ? -1 : (long)i;
}

size_t check_cases_options(const CheckCases *c, const char *model, const char *const *more) {
    json_t *results = read_lines(c->results), *report;
    size_t i, n_named = 0;
    unlink(c->changed);
    Process fresh = RUN_MORE(more, model, "--batch", c->requests, "-o", c->changed, "--ordered");
    if (fresh.status != 0) fail_msg("%s", fresh.err);
    Process p = RUN_MORE(more, model, "--batch", c->requests, "--check", c->results);
    json_t *reports = parse_lines(p.out), *others = read_lines(c->changed);
    assert_int_equal(json_array_size(reports), c->n);
    json_array_foreach(reports, i, report) {
        json_t *was = json_array_get(results, i), *is = json_array_get(others, i);
        json_object_del(was, "system_fingerprint");
        json_object_del(is, "system_fingerprint");
        bool same = json_is_true(json_object_get(report, "same"));
        assert_int_equal(same, json_equal(was, is));
        n_named += !same;
        long byte = first_difference(was, is);
        const json_t *choice = json_object_get(report, "choice");
        const char *field = json_string_value(json_object_get(report, "field"));
        bool first = (!choice || json_integer_value(choice) == 0) && field &&
                     strstr(field, "text") && !strstr(field, "[1]") && !strstr(field, "[2]") &&
                     !strstr(field, "[3]");
        if (same || byte < 0 || !first) continue;
        if (json_integer_value(json_object_get(report, "byte")) != byte)
            fail_msg("differs at %ld: %s", byte, json_dumps(report, 0));
    }
    assert_int_equal(p.status, n_named > 0 ? 3 : 0);
    /* -o gives what the fresh batch gave. */
    char *path = fixture_path(c->directory, "accepted.jsonl");
    unlink(path);
    Process accepted =
        RUN_MORE(more, model, "--batch", c->requests, "--check", c->results, "-o", path);
    size_t lengths[2];
    char *texts[] = {file_read(c->changed, &lengths[0]), file_read(path, &lengths[1])};
    assert_int_equal(lengths[0], lengths[1]);
    assert_memory_equal(texts[0], texts[1], lengths[0]);
    free(texts[0]);
    free(texts[1]);
    free(path);
    json_decref(reports);
    json_decref(results);
    json_decref(others);
    process_free(&fresh);
    process_free(&p);
    process_free(&accepted);
    return n_named;
}
