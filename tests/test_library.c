/* verbatim.h: the bytes of --batch in whatever state the host's thread is, and errors in place of
 * ends. The shared library itself is tested by scripts/test-shared. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fenv.h>
#include <jansson.h>
#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "base/address_sanitizer.h"
#include "tests/batch_cases.h"
#include "tests/fixture.h"
#include "tests/process.h"
#include "tests/small_model.h"
#include "tests/tier.h"
#include "verbatim.h"

static const char OPTIONS[] = "{\"threads\": 2, \"tokens\": 12, \"top_p\": 0.95}";

/* Requests beside those of batch_case: all forms, and lines that fail. */
static const char *const others[] = {
    "{\"prompt\": \"Once upon\", \"logprobs\": 3, \"n\": 2, \"seed\": 5}",
    "{\"messages\": [{\"role\": \"user\", \"content\": \"Hello\"}], \"max_tokens\": 9}",
    "{\"custom_id\": \"c\", \"method\": \"POST\", \"url\": \"/v1/completions\", \"body\": "
    "{\"prompt\": "
    "\"a\", \"logprobs\": 2, \"max_tokens\": 4}}",
    "{\"custom_id\": \"d\", \"method\": \"POST\", \"url\": \"/v1/chat/completions\", \"body\": "
    "{\"messages\": [{\"role\": \"user\", \"content\": \"b\"}], \"max_tokens\": 4}}",
    "{\"prompt\": \"x\", \"json_schema\": {\"type\": \"object\", \"properties\": {\"p\": "
    "{\"type\": "
    "\"number\", \"minimum\": 0.25}}, \"required\": [\"p\"]}, \"max_tokens\": 40}",
    "{\"prompt\": \"x\", \"temperature\": 0.5, \"min_p\": 0.01, \"logit_bias\": {\"70\": -1.5}}",
    "{\"prompt\": \"x\", \"temperatur\": 0.5}",
    "{\"prompt\": \"x\", \"temperature\": 1e4}",
    "{\"prompt\": [1, 2, 3], \"echo\": true, \"logprobs\": 1, \"max_tokens\": 0}",
    "{\"input\": [\"abc\", \"de\"], \"id\": 7}",
    "not JSON at all",
    "{\"prompt\": \"cut",
};
enum { N_OTHERS = sizeof others / sizeof *others };

typedef struct Place {
    char *directory, *model;
    size_t n;
    char **lines, **wanted; /* [n] requests, and their results by `run --batch` */
} Place;

static char *line_after(char **at) {
    char *line = *at, *end = strchr(line, '\n');
    assert_non_null(end);
    *end = '\0';
    *at = end + 1;
    return strdup(line);
}

static int open_place(void **state) {
    Place *p = calloc(1, sizeof *p);
    size_t length;
    p->directory = fixture_directory();
    p->model = small_model(p->directory, "tiny,context=512");
    p->n = tier_count(40, 150, 1000);
    p->lines = calloc(p->n, sizeof *p->lines);
    p->wanted = calloc(p->n, sizeof *p->wanted);
    char *input = fixture_path(p->directory, "in.jsonl"),
         *output = fixture_path(p->directory, "out.jsonl");
    FILE *file = fopen(input, "w");
    for (size_t i = 0; i < p->n; i++) {
        json_t *request = i % 3 == 0 ? NULL : batch_case(i);
        if (request && i % 3 == 1) json_object_del(request, "id");
        p->lines[i] = request ? json_dumps(request, 0) : strdup(others[i / 3 % N_OTHERS]);
        if (i / 3 >= N_OTHERS && strstr(p->lines[i], "\"id\": 7")) p->lines[i][0] = '['; /* again */
        if (i / 3 >= N_OTHERS && strstr(p->lines[i], "custom_id")) p->lines[i][0] = '[';
        json_decref(request);
        fprintf(file, "%s\n", p->lines[i]);
    }
    fclose(file);
    Process run = RUN("run", p->model, "--batch", input, "-o", output, "--ordered", "-j", "2", "-n",
                      "12", "--top-p", "0.95");
    assert_int_equal(run.status, 3); /* some lines are wrong */
    process_free(&run);
    char *results = file_read(output, &length), *at = results;
    for (size_t i = 0; i < p->n; i++) p->wanted[i] = line_after(&at);
    free(results);
    free(input);
    free(output);
    *state = p;
    return 0;
}

static int close_place(void **state) {
    Place *p = *state;
    for (size_t i = 0; i < p->n; i++) {
        free(p->lines[i]);
        free(p->wanted[i]);
    }
    free(p->lines);
    free(p->wanted);
    free(p->model);
    fixture_remove_directory(p->directory);
    free(p);
    return 0;
}

/* How many results of the first n requests are not the wanted ones. Asserts nothing: it runs in
 * threads. */
static size_t count_differences(const Place *p, size_t n, const char *options) {
    char why[VERBATIM_ERROR_BYTES];
    VerbatimRequest **requests = calloc(n, sizeof *requests);
    VerbatimModel *model = verbatim_open(p->model, options, why, sizeof why);
    size_t differ = 0;
    if (!model) fprintf(stderr, "%s\n", why);
    for (size_t i = 0; model && i < n; i++)
        requests[i] = verbatim_begin(model, p->lines[i], strlen(p->lines[i]));
    while (model && verbatim_pass(model) > 0) continue;
    for (size_t i = 0; i < n; i++) {
        const char *line = NULL;
        size_t length;
        bool same = requests[i] && verbatim_result(requests[i], &line, &length) == 1 &&
                    length == strlen(p->wanted[i]) && strcmp(line, p->wanted[i]) == 0;
        if (!same && differ++ == 0)
            fprintf(stderr, "%zu: %s\n  %s\n  %s\n", i, p->lines[i], line ? line : "-",
                    p->wanted[i]);
        verbatim_end(requests[i]);
    }
    verbatim_close(model);
    free(requests);
    return differ;
}

static void results_are_those_of_a_batch(void **state) {
    const Place *p = *state;
    assert_int_equal(count_differences(p, p->n, OPTIONS), 0);
}

static void a_model_that_is_read_gives_the_same(void **state) {
    const Place *p = *state;
    assert_int_equal(count_differences(p, 8,
                                       "{\"map\": false, \"threads\": 1, \"tokens\": 12, "
                                       "\"top-p\": 0.95, \"max-concurrent\": 2}"),
                     0);
}

static void set_floats_here(unsigned flush, int rounding) {
    fesetround(rounding);
#if defined(__x86_64__)
    _mm_setcsr((_mm_getcsr() & ~0x8040u) | flush);
#else
    (void)flush;
#endif
}

/* Sets the floating-point state of the OpenMP threads that work for this one, and its own: LLVM's
 * runtime gives a thread back after a region what it had before. */
static void set_floats(unsigned flush, int rounding) {
#pragma omp parallel num_threads(2)
    set_floats_here(flush, rounding);
    set_floats_here(flush, rounding);
}

static void flushed_denormals_and_rounding_modes_change_nothing(void **state) {
    const Place *p = *state;
    static const int modes[] = {FE_UPWARD, FE_TOWARDZERO};
    for (size_t i = 0; i < 2; i++) {
        set_floats(0x8040, modes[i]);
        size_t differ = count_differences(p, p->n, OPTIONS);
        int after = fegetround();
#if defined(__x86_64__)
        unsigned control = _mm_getcsr();
#endif
        set_floats(0, FE_TONEAREST);
        assert_int_equal(differ, 0);
        assert_int_equal(after, modes[i]);
#if defined(__x86_64__)
        assert_int_equal(control & 0x8040, 0x8040);
#endif
    }
}

/* A locale that differs from C in its numbers alone: quick to make. */
static const char comma_locale[] = "LC_IDENTIFICATION\ncopy \"POSIX\"\nEND LC_IDENTIFICATION\n"
                                   "LC_CTYPE\ncopy \"POSIX\"\nEND LC_CTYPE\n"
                                   "LC_COLLATE\ncopy \"POSIX\"\nEND LC_COLLATE\n"
                                   "LC_MONETARY\ncopy \"POSIX\"\nEND LC_MONETARY\n"
                                   "LC_NUMERIC\ndecimal_point \",\"\nthousands_sep \".\"\n"
                                   "grouping 3;3\nEND LC_NUMERIC\n"
                                   "LC_TIME\ncopy \"POSIX\"\nEND LC_TIME\n"
                                   "LC_MESSAGES\ncopy \"POSIX\"\nEND LC_MESSAGES\n";

/* Sets a locale with a comma in its numbers, made for the test if none is installed. */
static bool set_comma_locale(const char *directory) {
    static const char *const names[] = {"de_DE.UTF-8", "fr_FR.UTF-8", "ru_RU.UTF-8"};
    for (size_t i = 0; i < 3; i++)
        if (setlocale(LC_ALL, names[i])) return true;
    char *source = fixture_path(directory, "comma.src"), *made = fixture_path(directory, "comma");
    char command[1200];
    FILE *file = fopen(source, "w");
    if (file) fputs(comma_locale, file);
    if (file) fclose(file);
    snprintf(command, sizeof command, "localedef -c -i '%s' -f ANSI_X3.4-1968 '%s' >/dev/null 2>&1",
             source, made);
    if (system(command) == -1)
        return false; /* it warns of what the locale lacks, which is all right */
    free(source);
    free(made);
    setenv("LOCPATH", directory, 1);
    return setlocale(LC_ALL, "comma") != NULL;
}

static void a_locale_with_commas_changes_nothing(void **state) {
    const Place *p = *state;
    char number[16];
    if (!set_comma_locale(p->directory)) {
        print_message("skipped: no locale with a comma, and localedef makes none\n");
        skip();
    }
    snprintf(number, sizeof number, "%.1f", 0.5);
    size_t differ = count_differences(p, p->n, OPTIONS);
    char again[16];
    snprintf(again, sizeof again, "%.1f", 0.5);
    setlocale(LC_ALL, "C");
    assert_string_equal(number, "0,5");
    assert_string_equal(again, number);
    assert_int_equal(differ, 0);
}

static void *count_in_thread(void *context) {
    return (void *)count_differences(context, ((const Place *)context)->n, OPTIONS);
}

static void eight_threads_have_a_model_each(void **state) {
    pthread_t threads[8];
    for (size_t i = 0; i < 8; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, count_in_thread, *state), 0);
    for (size_t i = 0; i < 8; i++) {
        void *differ;
        pthread_join(threads[i], &differ);
        assert_null(differ);
    }
}

static void ignore_signal(int number) {
    (void)number;
}

/* A thread with the stack that the header asks for, whose calls are interrupted all the time. */
static void a_small_stack_and_signals_change_nothing(void **state) {
    const struct sigaction ignore = {.sa_handler = ignore_signal}; /* without SA_RESTART */
    const struct itimerval often = {{0, 1000}, {0, 1000}}, never = {{0, 0}, {0, 0}};
    struct sigaction before;
    pthread_attr_t small;
    pthread_t thread;
    void *differ;
    pthread_attr_init(&small);
#if !ADDRESS_SANITIZER && !defined(__SANITIZE_THREAD__)
    assert_int_equal(pthread_attr_setstacksize(&small, 1 << 20), 0);
#endif
    sigaction(SIGALRM, &ignore, &before);
    setitimer(ITIMER_REAL, &often, NULL);
    assert_int_equal(pthread_create(&thread, &small, count_in_thread, *state), 0);
    pthread_join(thread, &differ);
    setitimer(ITIMER_REAL, &never, NULL);
    sigaction(SIGALRM, &before, NULL);
    pthread_attr_destroy(&small);
    assert_null(differ);
}

/* ---- Errors ---- */

static void expect_no_model(const char *path, const char *options, const char *words) {
    char why[VERBATIM_ERROR_BYTES] = "";
    VerbatimModel *model = verbatim_open(path, options, why, sizeof why);
    if (model || !strstr(why, words)) print_message("%s: %s\n", words, why);
    assert_null(model);
    assert_non_null(strstr(why, words));
}

static void wrong_models_and_options_are_errors(void **state) {
    const Place *p = *state;
    char *cut = fixture_path(p->directory, "cut.bin");
    size_t length;
    char *bytes = file_read(p->model, &length);
    expect_no_model(p->model, "{\"thread\": 2}", "did you mean 'threads'");
    expect_no_model(p->model, "{\"threads\": true}", "wrong kind");
    expect_no_model(p->model, "{\"threads\": \"two\"}", "--threads");
    expect_no_model(p->model, "{\"batch\": \"/etc/passwd\"}", "no option 'batch'");
    expect_no_model(p->model, "{\"threads\": 2", "not JSON");
    expect_no_model(p->model, "[]", "not a JSON object");
    expect_no_model(p->model, "{\"map\": 1}", "'map'");
    expect_no_model(p->model, "{\"kv-memory\": \"1K\"}", "too few");
    expect_no_model(p->directory, NULL, "is a directory");
    expect_no_model("/nowhere/model.bin", NULL, "No such file");
    for (size_t n = 1; n < length; n = n * 3 + 1) {
        file_write(cut, bytes, n);
        expect_no_model(cut, "{\"map\": false}", "cut.bin");
        expect_no_model(cut, NULL, "cut.bin");
    }
    assert_null(verbatim_open(cut, NULL, NULL, 0));
    verbatim_close(NULL);
    verbatim_end(NULL);
    free(bytes);
    free(cut);
}

static void wrong_arguments_are_errors(void **state) {
    const Place *p = *state;
    static const char line[] = "{\"prompt\": \"Once\", \"max_tokens\": 2}";
    VerbatimModel *model = verbatim_open(p->model, OPTIONS, NULL, 0);
    const char *text;
    const float *rows;
    const int32_t *ids;
    size_t length, n, columns;
    expect_no_model(NULL, NULL, "no model");
    assert_string_equal(verbatim_error(model), "");
    assert_int_equal(verbatim_pass(model), 0);
    VerbatimRequest *empty = verbatim_begin(model, NULL, 0), *request;
    assert_int_equal(verbatim_result(empty, &text, &length), 1);
    assert_non_null(strstr(text, "\"error\""));
    assert_int_equal(verbatim_text(empty, 0, &text, &length), -1);
    assert_int_equal(length, 0);
    assert_int_equal(verbatim_cancel(empty), 0);
    request = verbatim_begin(model, line, sizeof line - 1);
    assert_int_equal(verbatim_numbers(request, (VerbatimNumbers)3, 0, &rows, &n, &columns), -1);
    assert_int_equal(verbatim_numbers(request, VERBATIM_LOGITS, 1, &rows, &n, &columns), -1);
    assert_int_equal(verbatim_numbers(request, VERBATIM_LOGITS, 0, &rows, &n, &columns), 0);
    assert_int_equal(verbatim_tokens(model, "a", 1, 4, &ids, &n), -1);
    assert_int_equal(verbatim_detokenize(model, NULL, 0, -1, &text, &length), -1);
    assert_non_null(strstr(verbatim_error(model), "flags"));
    assert_int_equal(verbatim_tokens(model, NULL, 0, VERBATIM_BARE, &ids, &n), 1);
    assert_int_equal(n, 0);
    assert_int_equal(verbatim_detokenize(model, NULL, 0, 0, &text, &length), 1);
    assert_string_equal(text, "");
    while (verbatim_pass(model) > 0) continue;
    assert_int_equal(verbatim_result(request, &text, &length), 1);
    assert_null(strstr(text, "\"error\""));
    verbatim_close(model);
}

/* The tokens of the request's prompt. */
static long long prompt_tokens(const char *model_file, const char *options, const char *line) {
    char why[VERBATIM_ERROR_BYTES];
    VerbatimModel *model = verbatim_open(model_file, options, why, sizeof why);
    const char *result;
    size_t length;
    if (!model) fail_msg("%s", why);
    VerbatimRequest *request = verbatim_begin(model, line, strlen(line));
    while (verbatim_pass(model) > 0) continue;
    assert_int_equal(verbatim_result(request, &result, &length), 1);
    json_t *json = json_loads(result, 0, NULL);
    long long n = json_integer_value(json_object_get(json, "prompt_tokens"));
    json_decref(json);
    verbatim_close(model);
    return n;
}

/* On the command line -y @FILE reads a file; a program's text may be a stranger's. */
static void a_text_names_no_file(void **state) {
    const Place *p = *state;
#define TEMPLATE "\"chat-template\": \"{%% for m in messages %%}{{ m.content }}{%% endfor %%}\""
#define USER "{\"role\": \"user\", \"content\": \"b\"}], \"max_tokens\": 1}"
    char with[600], without[300], line[600];
    snprintf(with, sizeof with, "{" TEMPLATE ", \"system\": \"@%s\"}", p->model);
    snprintf(without, sizeof without, "{" TEMPLATE "}");
    snprintf(line, sizeof line,
             "{\"messages\": [{\"role\": \"system\", \"content\": \"@%s\"}, " USER, p->model);
    long long n = prompt_tokens(p->model, with, "{\"messages\": [" USER);
    assert_true(n > (long long)strlen(p->model) / 4);
    assert_int_equal(n, prompt_tokens(p->model, without, line));
}

static void a_forked_child_is_refused(void **state) {
    const Place *p = *state;
    VerbatimModel *model = verbatim_open(p->model, OPTIONS, NULL, 0);
    VerbatimRequest *request = verbatim_begin(model, p->lines[1], strlen(p->lines[1]));
    while (verbatim_pass(model) > 0) continue;
    pid_t child = fork();
    if (child == 0) {
        const char *line;
        size_t length;
        alarm(20);
        bool refused = verbatim_begin(model, "{}", 2) == NULL &&
                       strstr(verbatim_error(model), "forked") && verbatim_pass(model) == -1 &&
                       verbatim_result(request, &line, &length) == -1 &&
                       verbatim_describe(model) == NULL;
        verbatim_end(request);
        verbatim_close(model);
        _exit(refused ? 0 : 1);
    }
    int status;
    waitpid(child, &status, 0);
    assert_int_equal(status, 0);
    verbatim_close(model); /* the request with it */
}

/* ---- Texts, numbers, tokens ---- */

static void texts_grow_and_requests_are_cancelled(void **state) {
    const Place *p = *state;
    static const char line[] = "{\"prompt\": \"Once\", \"max_tokens\": 30, \"ignore_eos\": true}";
    VerbatimModel *model = verbatim_open(p->model, OPTIONS, NULL, 0);
    VerbatimRequest *first = verbatim_begin(model, line, sizeof line - 1),
                    *second = verbatim_begin(model, line, sizeof line - 1),
                    *third = verbatim_begin(model, line, sizeof line - 1);
    const char *text, *result;
    char before[1024] = "";
    size_t length, n_before = 0, n;
    assert_int_equal(verbatim_result(first, &result, &n), 0);
    for (int passes = 0; verbatim_pass(model) > 0; passes++) {
        assert_true(verbatim_text(first, 0, &text, &length) >= 0);
        assert_true(length >= n_before && memcmp(text, before, n_before) == 0);
        memcpy(before, text, n_before = length);
        if (passes != 5) continue;
        assert_true(length > 0);
        assert_int_equal(verbatim_cancel(second), 1);
        assert_int_equal(verbatim_cancel(second), 0);
        verbatim_end(third);
    }
    assert_int_equal(verbatim_text(first, 0, &text, &length), 1);
    assert_int_equal(verbatim_text(first, 1, &text, &length), -1);
    assert_int_equal(verbatim_result(first, &result, &n), 1);
    assert_non_null(strstr(result, "\"completion_tokens\": 30"));
    assert_int_equal(verbatim_result(second, &result, &n), 1);
    assert_non_null(strstr(result, "\"cancelled\""));
    verbatim_end(second);
    verbatim_close(model);
}

static void numbers_are_those_of_the_result(void **state) {
    const Place *p = *state;
    VerbatimModel *model = verbatim_open(
        p->model, "{\"threads\": 2, \"pooling\": \"mean\", \"embed-normalize\": \"no\"}", NULL, 0);
    static const char logits[] = "{\"prompt\": \"Once\", \"max_tokens\": 5, \"ignore_eos\": true, "
                                 "\"temperature\": 0, \"return_logits\": true, "
                                 "\"return_token_ids\": true}",
                      states[] = "{\"input\": [\"abcde\", \"xy\"], \"return_states\": true}";
    VerbatimRequest *r = verbatim_begin(model, logits, sizeof logits - 1),
                    *e = verbatim_begin(model, states, sizeof states - 1);
    const float *rows, *vector;
    size_t n, columns, dim, length;
    const char *line;
    while (verbatim_pass(model) > 0) continue;
    assert_int_equal(verbatim_result(r, &line, &length), 1);
    assert_int_equal(verbatim_numbers(r, VERBATIM_LOGITS, 0, &rows, &n, &columns), 1);
    assert_int_equal(n, 5);
    json_t *json = json_loads(line, 0, NULL), *ids = json_object_get(json, "token_ids");
    for (size_t i = 0; i < n; i++) { /* greedy: the ids are the likeliest */
        size_t best = 0;
        for (size_t k = 1; k < columns; k++)
            if (rows[i * columns + k] > rows[i * columns + best]) best = k;
        assert_int_equal(json_integer_value(json_array_get(ids, i)), best);
    }
    json_decref(json);
    assert_int_equal(verbatim_numbers(r, VERBATIM_STATES, 0, &rows, &n, &columns), 0);
    assert_int_equal(verbatim_numbers(e, VERBATIM_STATES, 0, &rows, &n, &columns), 1);
    assert_int_equal(verbatim_numbers(e, VERBATIM_EMBEDDING, 0, &vector, &length, &dim), 1);
    assert_int_equal(columns, dim);
    assert_true(n >= 5);
    for (size_t k = 0; k < dim; k++) { /* mean pooling */
        double sum = 0;
        for (size_t i = 0; i < n; i++) sum += (double)rows[i * dim + k];
        assert_true(fabs(sum / (double)n - (double)vector[k]) < 1e-5);
    }
    verbatim_close(model);
}

static void tokens_come_back_as_text(void **state) {
    const Place *p = *state;
    VerbatimModel *model = verbatim_open(p->model, NULL, NULL, 0);
    const int32_t *ids;
    const char *text;
    size_t n, length;
    assert_int_equal(verbatim_tokens(model, "Once \xc3\xa9", 7, VERBATIM_BARE, &ids, &n), 1);
    assert_true(n > 0);
    assert_int_equal(verbatim_detokenize(model, ids, n, 0, &text, &length), 1);
    assert_string_equal(text, "Once \xc3\xa9");
    const int32_t wrong = 1 << 30;
    assert_int_equal(verbatim_detokenize(model, &wrong, 1, 0, &text, &length), -1);
    assert_true(strlen(verbatim_error(model)) > 0);
    assert_non_null(strstr(verbatim_describe(model), "\"vocab_size\": 300"));
    assert_string_equal(verbatim_version(), "0.1");
    verbatim_close(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_are_those_of_a_batch),
        cmocka_unit_test(a_model_that_is_read_gives_the_same),
        cmocka_unit_test(flushed_denormals_and_rounding_modes_change_nothing),
        cmocka_unit_test(a_locale_with_commas_changes_nothing),
        cmocka_unit_test(eight_threads_have_a_model_each),
        cmocka_unit_test(a_small_stack_and_signals_change_nothing),
        cmocka_unit_test(wrong_models_and_options_are_errors),
        cmocka_unit_test(wrong_arguments_are_errors),
        cmocka_unit_test(a_text_names_no_file),
        cmocka_unit_test(a_forked_child_is_refused),
        cmocka_unit_test(texts_grow_and_requests_are_cancelled),
        cmocka_unit_test(numbers_are_those_of_the_result),
        cmocka_unit_test(tokens_come_back_as_text),
    };
    return cmocka_run_group_tests(tests, open_place, close_place);
}
