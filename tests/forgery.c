#include "tests/forgery.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/sha256.h"
#include "tests/fixture.h"
#include "tests/process.h"

#define TWICE "__twice" /* ends a key that forgery_text writes as the key before it */

/* ---- Single changes ----------------------------------------------------------------------------
 */

static json_t *changed_text(const json_t *text, size_t k) {
    size_t n = json_string_length(text);
    char *bytes = malloc(n + 1);
    memcpy(bytes, json_string_value(text), n);
    size_t at = n > 0 ? k % n : 0, tried = 0;
    while (tried < n &&
           !((bytes[at] >= 'a' && bytes[at] <= 'z') || (bytes[at] >= '0' && bytes[at] <= '9')))
        at = (at + 1) % n, tried++;
    if (tried < n) {
        bytes[at] = bytes[at] == 'b' ? 'c' : bytes[at] == '7' ? '8' : bytes[at] <= '9' ? '7' : 'b';
    } else {
        bytes[n++] = 'x';
    }
    json_t *json = json_stringn(bytes, n);
    free(bytes);
    return json;
}

static json_t *changed(const json_t *value, size_t k) {
    double x = json_real_value(value);
    switch (json_typeof(value)) {
    case JSON_STRING:
        return changed_text(value, k);
    case JSON_INTEGER:
        return json_integer(json_integer_value(value) + (k % 2 ? 1 : -1));
    case JSON_REAL:
        return json_real(x == 0.0 ? (k % 2 ? -0.0 : 0.25) : k % 2 ? -x : x * 1.0000002);
    case JSON_TRUE:
        return json_false();
    case JSON_FALSE:
        return json_true();
    case JSON_NULL:
        return json_integer(0);
    default:
        return json_null();
    }
}

typedef struct Visit {
    size_t left, k;
    char *path; /* [256] */
    bool doubled;
} Visit;

static bool is_chosen(Visit *v, const char *path) {
    if (v->left-- > 0) return false;
    snprintf(v->path, 256, "%s", path);
    return true;
}

static bool visit(Visit *v, json_t *json, const char *path);

static bool visit_object(Visit *v, json_t *json, const char *path) {
    const char *key;
    json_t *value;
    char inner[256], twice[256];
    json_object_foreach(json, key, value) {
        snprintf(inner, sizeof inner, "%s%s%s", path, path[0] ? "." : "", key);
        snprintf(twice, sizeof twice, "%s" TWICE, key);
        if (is_chosen(v, inner)) return json_object_del(json, key) == 0;
        if (is_chosen(v, inner)) return json_object_set_new(json, key, changed(value, v->k)) == 0;
        if (is_chosen(v, inner)) {
            v->doubled = true;
            return json_object_set_new(json, twice, changed(value, v->k)) == 0;
        }
        if (visit(v, value, inner)) return true;
    }
    snprintf(inner, sizeof inner, "%s%snote", path, path[0] ? "." : "");
    return is_chosen(v, inner) && json_object_set_new(json, "note", json_string("x")) == 0;
}

static bool visit(Visit *v, json_t *json, const char *path) {
    char inner[256];
    if (json_is_object(json)) return visit_object(v, json, path);
    if (!json_is_array(json)) return false;
    for (size_t i = 0; i < json_array_size(json); i++) {
        json_t *value = json_array_get(json, i);
        snprintf(inner, sizeof inner, "%s[%zu]", path, i);
        if (is_chosen(v, inner)) return json_array_remove(json, i) == 0;
        if (is_chosen(v, inner)) return json_array_set_new(json, i, changed(value, v->k)) == 0;
        if (is_chosen(v, inner)) return json_array_insert(json, i, value) == 0;
        if (visit(v, value, inner)) return true;
    }
    return is_chosen(v, path) && json_array_append_new(json, json_integer(0)) == 0;
}

json_t *forgery_of(const json_t *document, size_t k, char path[256], bool *doubled) {
    json_t *copy = json_deep_copy(document);
    Visit v = {.left = k, .k = k, .path = path};
    if (!visit(&v, copy, "")) {
        json_decref(copy);
        return NULL;
    }
    *doubled = v.doubled;
    return copy;
}

char *forgery_text(const json_t *forgery) {
    char *text = json_dumps(forgery, JSON_COMPACT | JSON_REAL_PRECISION(17)), *at;
    while ((at = strstr(text, TWICE "\""))) memmove(at, at + strlen(TWICE), strlen(at) - 6);
    return text;
}

/* ---- Runs --------------------------------------------------------------------------------------
 */

typedef struct Desk {
    char *directory, *requests, *results, *forged, *receipt, *session;
} Desk;

static Desk desk_open(void) {
    Desk d = {.directory = fixture_directory()};
    d.requests = fixture_path(d.directory, "requests");
    d.results = fixture_path(d.directory, "results");
    d.forged = fixture_path(d.directory, "forged");
    d.receipt = fixture_path(d.directory, "receipt");
    d.session = fixture_path(d.directory, "session");
    return d;
}

static void desk_close(Desk *d) {
    free(d->requests);
    free(d->results);
    free(d->forged);
    free(d->receipt);
    free(d->session);
    fixture_remove_directory(d->directory);
}

#define RUN_OK(wanted, ...)                                                                        \
    do {                                                                                           \
        Process p_ = RUN("run", __VA_ARGS__);                                                      \
        if (p_.status != 0 && p_.status != (wanted)) fail_msg("%d: %s", p_.status, p_.err);        \
        process_free(&p_);                                                                         \
    } while (0)

static void write_text(const char *path, const char *text) {
    file_write(path, text, strlen(text));
}

static json_t *lines_of(const char *text, size_t length) {
    json_t *list = json_array();
    for (size_t at = 0; at < length;) {
        size_t n = strcspn(text + at, "\n");
        json_t *json = json_loadb(text + at, n, JSON_ALLOW_NUL, NULL);
        assert_non_null(json);
        json_array_append_new(list, json);
        at += n + 1;
    }
    return list;
}

static json_t *lines_in(const char *path) {
    size_t n;
    char *text = file_read(path, &n);
    json_t *list = lines_of(text, n);
    free(text);
    return list;
}

/* Whether a report says that the forgery of `path` is the same and does not name the run. */
static bool is_fooled(const json_t *report, const char *path) {
    const json_t *run = json_object_get(report, "run");
    for (size_t i = 0; i < json_array_size(run); i++)
        if (strcmp(json_string_value(json_array_get(run, i)), path) == 0) return false;
    return json_is_true(json_object_get(report, "same"));
}

/* ---- Results -----------------------------------------------------------------------------------
 */

#define CHAT "\"messages\": [{\"role\": \"user\", \"content\": \"Hi!\"}]"
#define OPENAI(url, body)                                                                          \
    "\"custom_id\": \"%s\", \"method\": \"POST\", \"url\": \"/v1/" url "\", \"body\": {" body "}"

/* Of each kind of result; %s is the id. */
static const char *const kinds[] = {
    "\"id\": \"%s\", \"prompt\": \"The dog\"",
    "\"id\": \"%s\", \"prompt\": \"The dog\", \"n\": 2",
    "\"id\": \"%s\", \"prompt\": [\"A cat\", \"Lily\"], \"logprobs\": 2, \"max_tokens\": 8",
    "\"id\": \"%s\", \"prompt\": \"One\", \"echo\": true, \"logprobs\": 1, \"max_tokens\": 2",
    "\"id\": \"%s\", " CHAT,
    "\"id\": \"%s\", \"prompt\": \"The\", \"regex\": \"[ a-z]{3,9}\"",
    "\"id\": \"%s\", \"prompt\": \"The\", \"return_token_ids\": true, \"max_tokens\": 12",
    "\"prompt\": \"Line %s\"",
    "\"id\": \"%s\", \"prompt\": 3",
    "\"id\": \"%s\", \"input\": [\"My dog\", \"My bird\"], \"dimensions\": 16",
    "\"id\": \"%s\", \"input\": \"My dog\", \"dimensions\": 16",
    OPENAI("chat/completions", CHAT ", \"max_tokens\": 8, \"logprobs\": true, \"top_logprobs\": 1"),
    OPENAI("completions", "\"prompt\": \"The dog\", \"max_tokens\": 8, \"n\": 2, \"logprobs\": 2"),
    OPENAI("embeddings", "\"input\": [\"My dog\", \"A\"], \"dimensions\": 4"),
    OPENAI("embeddings", "\"input\": \"My\", \"dimensions\": 4, \"encoding_format\": \"base64\""),
    OPENAI("chat/completions", "\"messages\": 3"),
};
enum { N_KINDS = sizeof kinds / sizeof *kinds };

/* Writes requests of these kinds, with ids by which a changed one is no other's. */
static void write_requests(const char *path, const size_t *kind, size_t n) {
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    for (size_t i = 0; i < n; i++) {
        char id[32];
        snprintf(id, sizeof id, "%08x%08x", (unsigned)i * 2654435761u, (unsigned)i * 40503u);
        fprintf(f, "{");
        fprintf(f, kinds[kind[i]], id);
        fprintf(f, "}\n");
    }
    assert_int_equal(fclose(f), 0);
}

#define OPTIONS "-n", "6", "-t", "0.8", "--pooling", "mean"

static json_t *record_results(const Desk *d, const char *model, const size_t *kind, size_t n) {
    write_requests(d->requests, kind, n);
    unlink(d->results);
    RUN_OK(3, model, "--batch", d->requests, "-o", d->results, "--ordered", OPTIONS);
    json_t *results = lines_in(d->results);
    assert_int_equal(json_array_size(results), n);
    return results;
}

/* One run for each key that stands twice: the file is refused. */
static bool doubled_is_same(const Desk *d, const char *model, const char *text) {
    write_text(d->forged, text);
    Process p = RUN("run", model, "--batch", d->requests, "--check", d->forged, OPTIONS);
    bool refused = p.status == 1 && strstr(p.err, "duplicate");
    process_free(&p);
    return !refused;
}

/* The changes of each kind, as many requests. */
static size_t plan(const Desk *d, const char *model, size_t step, size_t **kind, size_t **change) {
    size_t each[N_KINDS], n = 0, capacity = 20000;
    for (size_t i = 0; i < N_KINDS; i++) each[i] = i;
    json_t *results = record_results(d, model, each, N_KINDS);
    *kind = malloc(capacity * sizeof **kind);
    *change = malloc(capacity * sizeof **change);
    for (size_t i = 0, at = 0; i < N_KINDS; i++) {
        char path[256];
        bool doubled;
        json_t *forged;
        for (size_t k = 0; (forged = forgery_of(json_array_get(results, i), k, path, &doubled));
             k++, at++) {
            json_decref(forged);
            if (at % step != 0 || n == capacity) continue;
            (*kind)[n] = i;
            (*change)[n++] = k;
        }
    }
    json_decref(results);
    return n;
}

ForgerySum forge_results(const char *model, size_t step) {
    Desk d = desk_open();
    ForgerySum sum = {0};
    size_t *kind, *change, n = plan(&d, model, step, &kind, &change);
    json_t *results = record_results(&d, model, kind, n);
    char(*paths)[256] = calloc(n, sizeof *paths);
    FILE *f = fopen(d.results, "w");
    assert_non_null(f);
    for (size_t i = 0; i < n; i++) {
        bool doubled;
        json_t *forged = forgery_of(json_array_get(results, i), change[i], paths[i], &doubled);
        assert_non_null(forged);
        char *text = forgery_text(forged);
        if (doubled && i % 4 == 0) sum.same += doubled_is_same(&d, model, text);
        if (doubled) paths[i][0] = '\0';
        sum.tried += !doubled || i % 4 == 0;
        fprintf(f, "%s\n", doubled ? "{\"id\": null}" : text);
        free(text);
        json_decref(forged);
    }
    assert_int_equal(fclose(f), 0);
    Process p = RUN("run", model, "--batch", d.requests, "--check", d.results, OPTIONS);
    if (p.status != 3) fail_msg("status %d: %s", p.status, p.err);
    json_t *reports = lines_of(p.out, p.out_length);
    assert_true(json_array_size(reports) >= n);
    for (size_t i = 0; i < n; i++) {
        const json_t *report = json_array_get(reports, i);
        if (!is_fooled(report, paths[i])) continue;
        print_message("kind %zu, change %zu of %s: the same\n", kind[i], change[i], paths[i]);
        sum.same++;
    }
    json_decref(reports);
    json_decref(results);
    process_free(&p);
    free(kind);
    free(change);
    free(paths);
    desk_close(&d);
    return sum;
}

/* ---- Receipts ----------------------------------------------------------------------------------
 */

/* Seals a receipt again, as anybody can. */
static void reseal(json_t *receipt) {
    char digest[SHA256_HEX];
    json_object_del(receipt, "seal");
    char *text = json_dumps(receipt, JSON_COMPACT | JSON_SORT_KEYS | JSON_REAL_PRECISION(9));
    sha256_text(text, strlen(text), digest);
    json_object_set_new(receipt, "seal", json_string(digest));
    free(text);
}

/* Whether any line says that the field names the run. */
static bool names_run(const char *out, size_t length, const char *path) {
    json_t *reports = lines_of(out, length), *report;
    size_t i;
    bool named = false;
    json_array_foreach(reports, i, report) {
        const json_t *run = json_object_get(report, "run");
        for (size_t k = 0; k < json_array_size(run); k++)
            named = named || strstr(path, json_string_value(json_array_get(run, k)));
    }
    json_decref(reports);
    return named;
}

/* Runs `run` over a forged file: true when it says that all is the same. */
static bool said_same(const char *const *argv, const char *path) {
    Process p = process_run(argv, NULL, 0);
    bool same = p.status == 0;
    if (p.status > 3) fail_msg("%d: %s", p.status, p.err);
    if (same && names_run(p.out, p.out_length, path)) same = false;
    process_free(&p);
    return same;
}

/* Whether the field is an input that has only another value, or is left out. A new seal then makes
 * a true receipt wherever the model gives the same answers with it: the old seal must tell. */
static bool is_input(const json_t *receipt, const json_t *forged, const char *path) {
    static const char *const outputs[] = {"generated", "finish", "under"};
    const char *made = strstr(path, "made_with."), *number = strstr(path, ".number");
    size_t n[2] = {0};
    for (int i = 0; i < 2; i++) {
        const json_t *json = i ? forged : receipt, *item;
        size_t k;
        n[i] = json_object_size(json_object_get(json, "settings"));
        json_array_foreach(json_object_get(json, "items"), k, item) {
            n[i] += json_object_size(json_object_get(item, "made_with"));
        }
    }
    for (size_t i = 0; made && i < sizeof outputs / sizeof *outputs; i++)
        if (strcmp(made + strlen("made_with."), outputs[i]) == 0) return false;
    return n[1] <= n[0] && (made || number || strncmp(path, "settings.", 9) == 0);
}

static ForgerySum forge_receipt(const Desk *d, const char *model, size_t step, size_t *at) {
    ForgerySum sum = {0};
    json_t *receipt = json_load_file(d->receipt, 0, NULL), *forged;
    char path[256];
    bool doubled;
    assert_non_null(receipt);
    for (size_t k = 0; (forged = forgery_of(receipt, k, path, &doubled)); k++) {
        if ((*at)++ % step == 0) {
            bool seals = !doubled && strcmp(path, "seal") != 0 && !is_input(receipt, forged, path);
            if (seals) reseal(forged);
            char *text = forgery_text(forged);
            write_text(d->forged, text);
            sum.tried++;
            if (said_same((const char *const[]){"run", model, "--check", d->forged, NULL}, path)) {
                print_message("receipt, change %zu of %s: the same\n", k, path);
                sum.same++;
            }
            free(text);
        }
        json_decref(forged);
    }
    json_decref(receipt);
    return sum;
}

static void add(ForgerySum *sum, ForgerySum more) {
    sum->tried += more.tried;
    sum->same += more.same;
}

static const char said[] = "Hello\nTell me a story\n/set temperature 0.4\nAnd then?\nBye\n";

static void record_chat(const Desk *d, const char *model) {
    unlink(d->session);
    Process p =
        process_run((const char *const[]){"run", model, "-m", "chat", "-n", "6", "-y", "Be kind",
                                          "--session", d->session, "--receipt", d->receipt, NULL},
                    said, strlen(said));
    assert_int_equal(p.status, 0);
    process_free(&p);
}

ForgerySum forge_receipts(const char *model, size_t step) {
    Desk d = desk_open();
    ForgerySum sum = {0};
    size_t kind[N_KINDS], at = 0;
    for (size_t i = 0; i < N_KINDS; i++) kind[i] = i;
    RUN_OK(0, model, "-i", "Once", "-n", "4", "-s", "3", "--receipt", d.receipt);
    add(&sum, forge_receipt(&d, model, step, &at));
    write_requests(d.requests, kind, 8);
    RUN_OK(3, model, "--batch", d.requests, OPTIONS, "--receipt", d.receipt);
    add(&sum, forge_receipt(&d, model, step, &at));
    record_chat(&d, model);
    add(&sum, forge_receipt(&d, model, step, &at));
    desk_close(&d);
    return sum;
}

/* ---- Conversations and texts -------------------------------------------------------------------
 */

/* Writes the lines with the i-th replaced by `text`; NULL leaves it out. */
static void write_lines(const char *path, const json_t *lines, size_t i, const char *text) {
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    for (size_t k = 0; k < json_array_size(lines); k++) {
        char *own = forgery_text(json_array_get(lines, k));
        if (k != i) fprintf(f, "%s\n", own);
        if (k == i && text) fprintf(f, "%s\n", text);
        free(own);
    }
    assert_int_equal(fclose(f), 0);
}

ForgerySum forge_conversations(const char *model, size_t step) {
    Desk d = desk_open();
    ForgerySum sum = {0};
    size_t at = 0;
    record_chat(&d, model);
    const char *const argv[] = {"run", model, "--check", d.forged, NULL};
    json_t *lines = lines_in(d.session);
    write_lines(d.forged, lines, SIZE_MAX, NULL);
    assert_true(said_same(argv, "-"));
    for (size_t i = 0; i < json_array_size(lines); i++) {
        json_t *line = json_array_get(lines, i), *forged;
        char path[256], whole[300];
        bool doubled;
        for (size_t k = 0; (forged = forgery_of(line, k, path, &doubled)); k++) {
            if (at++ % step == 0) {
                char *text = forgery_text(forged);
                write_lines(d.forged, lines, i, text);
                snprintf(whole, sizeof whole, "%s%s", i == 0 ? "conversation." : "message.", path);
                sum.tried++;
                if (said_same(argv, whole)) {
                    print_message("line %zu, change %zu of %s: the same\n", i + 1, k, path);
                    sum.same++;
                }
                free(text);
            }
            json_decref(forged);
        }
        /* The line twice, and not at all. */
        char *own = forgery_text(line), *twice;
        assert_true(asprintf(&twice, "%s\n%s", own, own) > 0);
        for (int k = 0; k < 2; k++) {
            if (at++ % step != 0) continue;
            write_lines(d.forged, lines, i, k ? twice : NULL);
            sum.tried++;
            if (!said_same(argv, "-")) continue;
            /* A conversation that was cut after an answer is that of an earlier moment. */
            bool cut = !k && i + 1 == json_array_size(lines);
            if (!cut) print_message("line %zu, %s: the same\n", i + 1, k ? "twice" : "left out");
            sum.same += !cut;
        }
        free(own);
        free(twice);
    }
    json_decref(lines);
    desk_close(&d);
    return sum;
}

ForgerySum forge_texts(const char *model, size_t step) {
    Desk d = desk_open();
    ForgerySum sum = {0};
    size_t n;
    RUN_OK(0, model, "-i", "Once upon", "-n", "60", "-s", "3", "-o", d.results);
    const char *const argv[] = {"run", model, "-i",      "Once upon", "-n", "60",
                                "-s",  "3",   "--check", d.forged,    NULL};
    char *text = file_read(d.results, &n), *forged = malloc(n + 2);
    file_write(d.forged, text, n);
    assert_true(said_same(argv, "-"));
    for (size_t at = 0; at < 4 * n; at += step) {
        size_t i = at / 4, length = n;
        memcpy(forged, text, n);
        if (at % 4 == 0) { /* removed */
            memmove(forged + i, text + i + 1, n - i - 1);
            length = n - 1;
        } else if (at % 4 == 1) { /* changed */
            forged[i] ^= 1;
        } else { /* doubled; added */
            memmove(forged + i + 1, text + i, n - i);
            if (at % 4 == 3) forged[i] = 'x';
            length = n + 1;
        }
        file_write(d.forged, forged, length);
        sum.tried++;
        if (!said_same(argv, "-")) continue;
        print_message("byte %zu, change %zu: the same\n", i, at % 4);
        sum.same++;
    }
    free(text);
    free(forged);
    desk_close(&d);
    return sum;
}

/* ---- Honest records ----------------------------------------------------------------------------
 */

static void expect_same(ForgerySum *sum, size_t n, const char *const *argv) {
    Process p = process_run(argv, NULL, 0);
    if (p.status != 0) print_message("%s%s", p.out, p.err);
    sum->tried += n;
    sum->same += p.status == 0 ? n : 0;
    process_free(&p);
}

ForgerySum honest_records(const char *model, const char *isa, size_t n) {
    Desk d = desk_open();
    ForgerySum sum = {0};
    size_t *kind = calloc(n, sizeof *kind);
    for (size_t i = 0; i < n; i++) kind[i] = i % N_KINDS;
    json_decref(record_results(&d, model, kind, n));
    RUN_OK(3, model, "--batch", d.requests, OPTIONS, "--receipt", d.receipt);
#define SAME(count, ...)                                                                           \
    expect_same(&sum, count, (const char *const[]){"run", model, "--isa", isa, __VA_ARGS__, NULL})
    SAME(n, "--batch", d.requests, "--check", d.results, OPTIONS);
    SAME(1, "--check", d.receipt);
    SAME(1, "--replay", d.receipt, "--check", d.results, "-j", "1");
    record_chat(&d, model);
    SAME(1, "--check", d.receipt);
    SAME(1, "--check", d.session);
    unlink(d.results);
    RUN_OK(0, model, "-i", "Once upon", "-n", "30", "-s", "3", "--receipt", d.receipt, "-o",
           d.results);
    SAME(1, "--check", d.receipt);
    SAME(1, "--check", d.results, "-i", "Once upon", "-n", "30", "-s", "3");
    SAME(1, "--replay", d.receipt, "--check", d.results);
    write_text(d.forged, "My dog\nMy bird\n");
    RUN_OK(0, model, "--embed", d.forged, "--pooling", "mean", "--receipt", d.receipt);
    SAME(1, "--check", d.receipt);
#undef SAME
    free(kind);
    desk_close(&d);
    return sum;
}
