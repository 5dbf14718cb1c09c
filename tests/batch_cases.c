#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/batch_cases.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- Requests -------------------------------------------------------------------------------- */

static unsigned draw(uint64_t *seed, unsigned below) {
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(*seed >> 33) % below;
}

static json_t *prompt(size_t i, uint64_t *seed) {
    static const char *const words[] = {"the ",  "cat ",  "saw ", "a ",     "big ", "tree ",
                                        "Lily ", "ran ",  "to ",  "her ",   "mom ", "and ",
                                        "said ", "hello", ". ",   "One ",   "day ", "it ",
                                        "was ",  "very ", "dark", "\u00e9", ", ",   "he "};
    static const char common[] = "You tell short stories for small children about a girl, her cat "
                                 "and the big garden behind the house. Once upon a time ";
    char text[1024];
    size_t length = 0, n = 1 + draw(seed, i % 7 == 0 ? 60 : 12);
    text[0] = '\0';
    if (i % 3 == 0) length = (size_t)snprintf(text, sizeof text, "%s", common);
    for (size_t k = 0; k < n && length + 16 < sizeof text; k++)
        length += (size_t)snprintf(text + length, sizeof text - length, "%s",
                                   words[draw(seed, sizeof words / sizeof *words)]);
    return json_stringn(text, length);
}

json_t *batch_case(size_t i) {
    uint64_t seed = i * 2654435761u + 12345;
    char id[32];
    snprintf(id, sizeof id, "r%zu", i);
    json_t *json = json_pack("{s:s, s:o}", "id", id, "prompt", prompt(i, &seed));
    json_object_set_new(json, "max_tokens", json_integer(1 + draw(&seed, i % 5 == 0 ? 90 : 30)));
    if (i % 2 == 0) json_object_set_new(json, "temperature", json_real(0.25 * draw(&seed, 5)));
    if (i % 5 == 1) json_object_set_new(json, "top_k", json_integer(1 + draw(&seed, 40)));
    if (i % 5 == 2) json_object_set_new(json, "top_p", json_real(0.5 + 0.125 * draw(&seed, 4)));
    if (i % 5 == 3) json_object_set_new(json, "min_p", json_real(0.0625));
    if (i % 3 == 1) json_object_set_new(json, "seed", json_integer(draw(&seed, 1000)));
    if (i % 7 == 2) json_object_set_new(json, "repetition_penalty", json_real(1.25));
    if (i % 7 == 3) json_object_set_new(json, "presence_penalty", json_real(0.5));
    if (i % 7 == 4) json_object_set_new(json, "frequency_penalty", json_real(0.25));
    if (i % 4 == 3) json_object_set_new(json, "stop", json_pack("[s, s]", ".", "mom"));
    if (i % 11 == 5) json_object_set_new(json, "logit_bias", json_pack("{s:i}", "270", 3));
    return json;
}

void batch_write_cases(const char *path, size_t n) {
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    for (size_t i = 0; i < n; i++) {
        json_t *json = batch_case(i);
        json_dumpf(json, f, JSON_REAL_PRECISION(17));
        fputc('\n', f);
        json_decref(json);
    }
    assert_int_equal(fclose(f), 0);
}

/* A line of the i-th kind; NULL: a line that is not JSON. */
static json_t *mixed_case(size_t i) {
    json_t *json = batch_case(i), *body;
    json_object_set_new(json, "max_tokens", json_integer((json_int_t)(1 + i % 7)));
    switch (i % 9) {
    case 1: /* a request without an id */
        json_object_del(json, "id");
        return json;
    case 2: /* several texts with logprobs, without an id */
        json_object_del(json, "id");
        json_object_set_new(json, "n", json_integer(2));
        json_object_set_new(json, "logprobs", json_integer(1));
        return json;
    case 3: /* fails; with an id or without */
        if (i % 2) json_object_del(json, "id");
        json_object_set_new(json, "unknown", json_true());
        return json;
    case 4: /* OpenAI's forms; with an id or without */
    case 5:
        json_object_del(json, "id");
        body = json_pack("{s:s, s:o}", "method", "POST", "body", json);
        json_object_set_new(body, "url",
                            json_string(i % 9 == 4 ? "/v1/completions" : "/v1/chat/completions"));
        if (i % 2) json_object_set_new(body, "custom_id", json_sprintf("c%zu", i));
        if (i % 4 == 1) json_object_set_new(json, "stream", json_true()); /* fails in a file */
        if (i % 9 == 5)
            json_object_set_new(json, "messages",
                                json_pack("[{s:s, s:o}]", "role", "user", "content",
                                          json_incref(json_object_get(json, "prompt"))));
        if (i % 9 == 5) json_object_del(json, "prompt");
        json_object_del(json, "top_k");
        json_object_del(json, "min_p");
        json_object_del(json, "repetition_penalty");
        return body;
    case 6:
        json_decref(json);
        return NULL;
    default:
        return json;
    }
}

void batch_write_mixed(const char *path, size_t n) {
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    for (size_t i = 0; i < n; i++) {
        json_t *json = mixed_case(i == 8 ? 7 : i); /* the ninth line repeats an id */
        if (json) json_dumpf(json, f, JSON_REAL_PRECISION(17));
        if (!json) fputs(i % 2 ? "" : "not JSON", f);
        fputc('\n', f);
        json_decref(json);
    }
    assert_int_equal(fclose(f), 0);
}

/* ---- One at a time --------------------------------------------------------------------------- */

char *batch_case_alone(const char *model, size_t i, size_t *length) {
    static const struct {
        const char *field, *option;
    } numbers[] = {{"max_tokens", "-n"},
                   {"temperature", "-t"},
                   {"top_k", "--top-k"},
                   {"top_p", "-p"},
                   {"min_p", "--min-p"},
                   {"repetition_penalty", "--repetition-penalty"},
                   {"presence_penalty", "--presence-penalty"},
                   {"frequency_penalty", "--frequency-penalty"}};
    enum { N_NUMBERS = sizeof numbers / sizeof *numbers };
    json_t *json = batch_case(i);
    char texts[N_NUMBERS + 2][32];
    const char *argv[PROCESS_MAX_ARGUMENTS] = {"run", model, "-i"};
    size_t n = 3;
    argv[n++] = json_string_value(json_object_get(json, "prompt"));
    for (size_t k = 0; k < N_NUMBERS; k++) {
        const json_t *value = json_object_get(json, numbers[k].field);
        if (!value) continue;
        snprintf(texts[k], sizeof texts[k], "%.17g", json_number_value(value));
        argv[n++] = numbers[k].option;
        argv[n++] = texts[k];
    }
    json_int_t seed = json_integer_value(json_object_get(json, "seed"));
    snprintf(texts[N_NUMBERS], sizeof texts[0], "%lld", (long long)seed);
    argv[n++] = "-s";
    argv[n++] = texts[N_NUMBERS];
    const json_t *stop = json_object_get(json, "stop");
    for (size_t k = 0; k < json_array_size(stop); k++) {
        argv[n++] = "--stop";
        argv[n++] = json_string_value(json_array_get(stop, k));
    }
    const char *key;
    json_t *bias;
    json_object_foreach(json_object_get(json, "logit_bias"), key, bias) {
        snprintf(texts[N_NUMBERS + 1], sizeof texts[0], "%s=%g", key, json_number_value(bias));
        argv[n++] = "--logit-bias";
        argv[n++] = texts[N_NUMBERS + 1];
    }
    argv[n] = NULL;
    Process p = process_run(argv, NULL, 0);
    if (p.status != 0) fail_msg("request %zu: %s", i, p.err);
    json_decref(json);
    char *text = p.out;
    *length = p.out_length - 1; /* run ends the text with a newline */
    p.out = NULL;
    process_free(&p);
    return text;
}

/* The bytes of a result's text; when they are not UTF-8, "bytes" lists them. */
static char *result_text(const json_t *result, size_t *length) {
    const json_t *bytes = json_object_get(result, "bytes"), *text = json_object_get(result, "text");
    if (!json_is_string(text)) fail_msg("%s", json_dumps(result, 0));
    *length = bytes ? json_array_size(bytes) : json_string_length(text);
    char *copy = malloc(*length + 1);
    assert_non_null(copy);
    for (size_t i = 0; i < *length; i++)
        copy[i] =
            bytes ? (char)json_integer_value(json_array_get(bytes, i)) : json_string_value(text)[i];
    return copy;
}

void batch_check_results(const char *model, const char *output, size_t n) {
    FILE *f = fopen(output, "rb");
    assert_non_null(f);
    char *seen = calloc(n, 1);
    for (size_t lines = 0; lines < n; lines++) {
        json_error_t where;
        json_t *result = json_loadf(f, JSON_DISABLE_EOF_CHECK | JSON_ALLOW_NUL, &where);
        if (!result) fail_msg("%s: result %zu: %s", output, lines + 1, where.text);
        const char *id = json_string_value(json_object_get(result, "id"));
        assert_non_null(id);
        size_t i = strtoul(id + 1, NULL, 10), length, alone_length;
        assert_true(i < n && !seen[i]);
        seen[i] = 1;
        char *text = result_text(result, &length);
        char *alone = batch_case_alone(model, i, &alone_length);
        if (length != alone_length || memcmp(text, alone, length) != 0)
            fail_msg("request %zu gives '%.*s' in a batch, but '%.*s' alone", i, (int)length, text,
                     (int)alone_length, alone);
        free(text);
        free(alone);
        json_decref(result);
    }
    while (fgetc(f) == '\n') continue;
    assert_true(feof(f));
    fclose(f);
    free(seen);
}

/* ---- Batches --------------------------------------------------------------------------------- */

static void command(const char **argv, const char *model, const char *input, const char *output,
                    const char *const *more) {
    size_t n = 0;
    argv[n++] = "run";
    argv[n++] = model;
    argv[n++] = "--batch";
    argv[n++] = input;
    if (output) {
        argv[n++] = "-o";
        argv[n++] = output;
    }
    for (size_t i = 0; more && more[i]; i++) argv[n++] = more[i];
    argv[n] = NULL;
}

Process batch_run_program(const char *model, const char *input, const char *output,
                          const char *const *more) {
    const char *argv[PROCESS_MAX_ARGUMENTS];
    command(argv, model, input, output, more);
    return process_run(argv, NULL, 0);
}

bool batch_run_and_signal(const char *model, const char *input, const char *output,
                          const char *const *more, unsigned microseconds, int signal_number,
                          int *status) {
    const char *argv[PROCESS_MAX_ARGUMENTS];
    int result;
    command(argv, model, input, output, more);
    char *path = build_path("run");
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        int nowhere = open("/dev/null", O_WRONLY);
        dup2(nowhere, STDOUT_FILENO);
        dup2(nowhere, STDERR_FILENO);
        execv(path, (char *const *)argv);
        _exit(127);
    }
    usleep(microseconds);
    bool alive = waitpid(child, &result, WNOHANG) == 0;
    if (alive) {
        kill(child, signal_number);
        assert_int_equal(waitpid(child, &result, 0), child);
    }
    *status = WIFSIGNALED(result) ? 128 + WTERMSIG(result) : WEXITSTATUS(result);
    free(path);
    return alive;
}

bool batch_run_and_kill(const char *model, const char *input, const char *output,
                        const char *const *more, unsigned microseconds) {
    int status;
    batch_run_and_signal(model, input, output, more, microseconds, SIGKILL, &status);
    return status == 128 + SIGKILL;
}

static int compare_lines(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

char *batch_sorted_lines(const char *path) {
    size_t length, n = 0;
    char *bytes = file_read(path, &length), *sorted = malloc(length + 2), *at = sorted;
    char **lines = calloc(length + 1, sizeof *lines);
    assert_true(sorted && lines);
    for (char *rest = bytes, *line; (line = strsep(&rest, "\n"));) lines[n++] = line;
    qsort(lines, n, sizeof *lines, compare_lines);
    for (size_t i = 0; i < n; i++) {
        at = stpcpy(at, lines[i]);
        *at++ = '\n';
    }
    sorted[length] = '\0'; /* the file's last newline leaves an empty line, which sorts first */
    free(lines);
    free(bytes);
    return sorted;
}
