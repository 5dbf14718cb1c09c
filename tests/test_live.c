/* A batch with a program at the other end of its pipes: --live and --logits. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/fixture.h"
#include "tests/process.h"
#include "tests/small_model.h"

typedef struct Place {
    char *directory, *model, *logits;
} Place;

static int open_place(void **state) {
    Place *p = calloc(1, sizeof *p);
    p->directory = fixture_directory();
    p->model = small_model(p->directory, "tiny,context=512");
    p->logits = fixture_path(p->directory, "logits.bin");
    *state = p;
    return 0;
}

static int close_place(void **state) {
    Place *p = *state;
    free(p->model);
    free(p->logits);
    fixture_remove_directory(p->directory);
    free(p);
    return 0;
}

/* ---- A running program ----------------------------------------------------------------------- */

typedef struct Live {
    pid_t pid;
    FILE *in, *out; /* its stdin and stdout */
} Live;

static Live live_start(const Place *p) {
    int in[2], out[2];
    char *program = program_command("run"), *command;
    assert_int_equal(pipe(in) | pipe(out), 0);
    assert_true(asprintf(&command, "exec %s %s --batch - --live --logits %s -j 2", program,
                         p->model, p->logits) > 0);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(in[0], 0);
        dup2(out[1], 1);
        for (int fd = 3; fd < 64; fd++) close(fd);
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
    close(in[0]);
    close(out[1]);
    free(command);
    free(program);
    return (Live){pid, fdopen(in[1], "w"), fdopen(out[0], "r")};
}

static void live_say(Live *live, const char *line) {
    fprintf(live->in, "%s\n", line);
    fflush(live->in);
}

/* The next result; the caller calls json_decref. */
static json_t *live_hear(Live *live) {
    char *line = NULL;
    size_t capacity = 0;
    assert_true(getline(&line, &capacity, live->out) > 0);
    json_t *json = json_loads(line, 0, NULL);
    if (!json) fail_msg("'%s'", line);
    free(line);
    return json;
}

static json_t *live_ask(Live *live, const char *line) {
    live_say(live, line);
    return live_hear(live);
}

static int live_end(Live *live) {
    int status;
    fclose(live->in);
    assert_int_equal(waitpid(live->pid, &status, 0), live->pid);
    fclose(live->out);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static json_int_t number(const json_t *json, const char *key) {
    const json_t *value = json_object_get(json, key);
    assert_true(json_is_integer(value));
    return json_integer_value(value);
}

static bool is_true(const json_t *json, const char *key) {
    assert_true(json_is_boolean(json_object_get(json, key)));
    return json_is_true(json_object_get(json, key));
}

static const char *error_of(const json_t *json, const char *key) {
    const char *text = json_string_value(json_object_get(json_object_get(json, "error"), key));
    return text ? text : "";
}

/* The text in base64 (RFC 4648). */
static void encode_base64(const char *text, char *encoded, size_t size) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t n = strlen(text), length = 0;
    for (size_t i = 0; i < n; i += 3) {
        unsigned char b[3] = {0};
        assert_true(length + 5 < size);
        memcpy(b, text + i, n - i < 3 ? n - i : 3);
        encoded[length++] = digits[b[0] >> 2];
        encoded[length++] = digits[(b[0] & 3) << 4 | b[1] >> 4];
        encoded[length++] = n - i > 1 ? digits[(b[1] & 15) << 2 | b[2] >> 6] : '=';
        encoded[length++] = n - i > 2 ? digits[b[2] & 63] : '=';
    }
    encoded[length] = '\0';
}

/* ---- Tests ------------------------------------------------------------------------------------
 */

static void every_result_comes_at_once_with_its_line_and_ids_may_repeat(void **state) {
    Live live = live_start(*state);
    json_t *first = NULL;
    for (json_int_t i = 1; i <= 3; i++) {
        json_t *result = live_ask(&live, "{\"id\": \"a\", \"prompt\": \"ab\", \"max_tokens\": 5}");
        assert_int_equal(number(result, "line"), i);
        assert_string_equal(error_of(result, "message"), "");
        json_object_del(result, "line");
        if (!first) first = json_incref(result);
        assert_true(json_equal(first, result));
        json_decref(result);
    }
    json_decref(first);
    assert_int_equal(live_end(&live), 0);
}

static void the_program_tells_what_it_runs_and_decodes_tokens(void **state) {
    Live live = live_start(*state);
    json_t *result = live_ask(&live, "{\"id\": 1, \"info\": true}");
    const json_t *info = json_object_get(result, "info");
    assert_int_equal(number(info, "context"), 512);
    assert_true(number(info, "vocab_size") > 0 && number(info, "max_concurrent") > 0);
    json_decref(result);
    result =
        live_ask(&live, "{\"prompt\": \"a text\", \"max_tokens\": 0, \"return_token_ids\": true}");
    json_t *line = json_object(), *ids = json_object_get(result, "prompt_token_ids");
    json_object_set(line, "detokenize", ids);
    char *text = json_dumps(line, 0);
    json_t *decoded = live_ask(&live, text);
    assert_non_null(strstr(json_string_value(json_object_get(decoded, "text")), "a text"));
    json_decref(decoded);
    json_decref(line);
    json_decref(result);
    free(text);
    static const char *const wrong[][2] = {
        {"{\"detokenize\": 5}", "must be a list"},
        {"{\"detokenize\": [-1]}", "item 0 is not a token id"},
        {"{\"detokenize\": [1], \"special\": 1}", "must be true or false"},
        {"{\"detokenize\": [1], \"n\": 1}", "has no field 'n'"},
        {"{\"info\": 1}", "must be true"},
        {"{\"cancel\": \"a\"}", "must be the line"},
        {"{\"forget\": 0}", "must be the line"},
        {"{\"results\": 1}", "must be bytes in base64"},
        {"{\"results\": \"e30\"}", "must be bytes in base64"},
        {"{\"results\": \"e3$=\"}", "must be bytes in base64"},
        {"{\"results\": \"\", \"last\": 1}", "must be true or false"},
        {"{\"results\": \"\", \"first\": 0}", "must be the line of a file"},
        {"{\"prompt\": \"a\", \"cancel\": 3}", "has no field 'prompt'"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        result = live_ask(&live, wrong[i][0]);
        if (!strstr(error_of(result, "message"), wrong[i][1]))
            fail_msg("%s: '%s'", wrong[i][0], error_of(result, "message"));
        json_decref(result);
    }
    assert_int_equal(live_end(&live), 3);
}

/* Bytes of a file go in as base64; the answer tells how many of them a run may go on after, by the
 * rule of --resume. Values of `wanted`: bytes, or what the error says. */
static void what_a_program_keeps_is_judged_as_resume_judges_it(void **state) {
    Live live = live_start(*state);
    json_t *result = live_ask(&live, "{\"id\": \"a\", \"prompt\": \"ab\", \"max_tokens\": 2}");
    char *line = json_dumps(result, 0), *text = NULL;
    size_t n = strlen(line) + 1;
    json_decref(result);
    const struct {
        const char *behind; /* a result and its newline */
        bool last;
        const char *refused;
    } cases[] = {
        {"", true, NULL},
        {"{\"id\": \"b\", \"te", true, NULL}, /* torn */
        {"my not", false, NULL},              /* the rest follows */
        {"my note", true, "line 8: "},
        {"{\"id\": 1, \"prompt\": \"a\"}", true, "line 8: not a result"},
        {"{\"id\": my note", true, "line 8: "}, /* begins like a result, and is not JSON */
        {"my note\n", true, "line 8: "},
        {"{\"id\": \"b\", \"text\": \"\", \"system_fingerprint\": \"fp_0\"}\n", true,
         "line 8 is of another model"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *bytes = NULL, encoded[4096];
        assert_true(asprintf(&bytes, "%s\n%s", line, cases[i].behind) > 0);
        encode_base64(bytes, encoded, sizeof encoded);
        assert_true(asprintf(&text, "{\"results\": \"%s\", \"first\": 7, \"last\": %s}", encoded,
                             cases[i].last ? "true" : "false") > 0);
        result = live_ask(&live, text);
        if (cases[i].refused) {
            if (!strstr(error_of(result, "message"), cases[i].refused))
                fail_msg("case %zu: '%s'", i, error_of(result, "message"));
        } else {
            assert_int_equal(number(result, "whole"), n);
        }
        json_decref(result);
        free(bytes), free(text);
    }
    free(line);
    assert_int_equal(live_end(&live), 3);
}

static void a_cancelled_request_ends_and_the_others_go_on(void **state) {
    Live live = live_start(*state);
    live_say(&live, "{\"id\": \"long\", \"prompt\": \"ab\", \"max_tokens\": 500, \"n\": 400, "
                    "\"ignore_eos\": true}");
    live_say(&live, "{\"id\": \"other\", \"prompt\": \"ab\", \"max_tokens\": 30, "
                    "\"ignore_eos\": true, \"seed\": 3}");
    live_say(&live, "{\"id\": \"cancel\", \"cancel\": 1}");
    json_t *ended = live_hear(&live), *told = live_hear(&live), *other = live_hear(&live);
    assert_string_equal(error_of(ended, "code"), "cancelled");
    assert_int_equal(number(ended, "line"), 1);
    assert_true(is_true(told, "cancelled"));
    assert_int_equal(number(other, "completion_tokens"), 30);
    json_t *again = live_ask(&live, "{\"cancel\": 2}");
    assert_false(is_true(again, "cancelled"));
    json_decref(ended);
    json_decref(told);
    json_decref(other);
    json_decref(again);
    live_say(&live, "{\"prompt\": \"ab\", \"max_tokens\": 500, \"n\": 400}");
    ended = live_ask(&live, "{\"cancel\": 5}"); /* nothing stands after it */
    assert_string_equal(error_of(ended, "code"), "cancelled");
    told = live_hear(&live);
    assert_true(is_true(told, "cancelled"));
    json_decref(ended);
    json_decref(told);
    assert_int_equal(live_end(&live), 3);
}

static void a_kept_prompt_changes_no_answer(void **state) {
    static const char line[] = "{\"prompt\": \"a long prompt that is kept\", \"max_tokens\": 20}";
    Live live = live_start(*state);
    json_t *before = live_ask(&live, line);
    json_t *kept = live_ask(
        &live, "{\"prompt\": \"a long prompt that is kept\", \"max_tokens\": 1, \"keep\": true}");
    json_t *after = live_ask(&live, line), *forgotten = live_ask(&live, "{\"forget\": 2}");
    assert_string_equal(json_string_value(json_object_get(before, "text")),
                        json_string_value(json_object_get(after, "text")));
    assert_true(is_true(forgotten, "forgotten"));
    json_decref(before);
    json_decref(kept);
    json_decref(after);
    json_decref(forgotten);
    assert_int_equal(live_end(&live), 0);
}

/* The log-probability of a token by a row of logits. */
static double logprob_of(const float *logits, size_t n, json_int_t id) {
    double sum = 0.0;
    for (size_t i = 0; i < n; i++) sum += exp((double)logits[i]);
    return (double)logits[id] - log(sum);
}

static void check_rows(const json_t *result, const json_t *logprobs, size_t first,
                       const float *matrix, size_t vocab) {
    const json_t *rows = json_object_get(result, "logits_rows");
    for (size_t i = 0; i < json_array_size(logprobs); i++) {
        const json_t *entry = json_array_get(logprobs, i);
        size_t row = (size_t)json_integer_value(json_array_get(rows, first + i));
        double expected = json_number_value(json_object_get(entry, "logprob"));
        assert_true(fabs(logprob_of(matrix + row * vocab, vocab, number(entry, "id")) - expected) <
                    1e-3);
    }
}

static void rows_of_logits_are_those_that_the_tokens_were_chosen_from(void **state) {
    const Place *p = *state;
    Live live = live_start(p);
    json_t *info = live_ask(&live, "{\"info\": true}");
    size_t vocab = (size_t)number(json_object_get(info, "info"), "vocab_size"), bytes;
    json_t *result = live_ask(&live, "{\"prompt\": \"some tokens\", \"max_tokens\": 7, \"echo\": "
                                     "true, \"logprobs\": true, \"return_logits\": true, "
                                     "\"ignore_eos\": true}");
    char *matrix = file_read(p->logits, &bytes);
    const json_t *prompt = json_object_get(result, "prompt_logprobs");
    const json_t *generated = json_object_get(result, "logprobs");
    size_t n = json_array_size(prompt) + json_array_size(generated);
    assert_int_equal(json_array_size(generated), 7);
    assert_int_equal(json_array_size(json_object_get(result, "logits_rows")), n);
    assert_int_equal(bytes, n * vocab * sizeof(float));
    check_rows(result, prompt, 0, (const float *)(void *)matrix, vocab);
    check_rows(result, generated, json_array_size(prompt), (const float *)(void *)matrix, vocab);
    free(matrix);
    json_decref(info);
    json_decref(result);
    assert_int_equal(live_end(&live), 0);
}

static void a_native_stream_adds_up_to_its_result(void **state) {
    Live live = live_start(*state);
    json_t *plain = live_ask(&live, "{\"id\": 1, \"prompt\": \"ab\", \"max_tokens\": 30}"), *result;
    char text[4096] = "";
    size_t n_chunks = 0;
    live_say(&live, "{\"id\": 1, \"prompt\": \"ab\", \"max_tokens\": 30, \"stream\": true}");
    for (;;) {
        result = live_hear(&live);
        const json_t *delta = json_object_get(result, "delta");
        assert_int_equal(number(result, "line"), 2);
        if (!delta) break;
        n_chunks++;
        strncat(text, json_string_value(json_object_get(delta, "text")), 100);
        json_decref(result);
    }
    assert_true(n_chunks > 3);
    assert_string_equal(text, json_string_value(json_object_get(result, "text")));
    json_object_del(plain, "line");
    json_object_del(result, "line");
    assert_true(json_equal(plain, result));
    json_decref(plain);
    json_decref(result);
    assert_int_equal(live_end(&live), 0);
}

static void the_program_ends_when_nobody_reads(void **state) {
    Live live = live_start(*state);
    int status;
    json_decref(live_ask(&live, "{\"info\": true}"));
    live_say(&live, "{\"prompt\": \"ab\", \"max_tokens\": 500, \"n\": 400, \"ignore_eos\": true}");
    fclose(live.out);
    assert_int_equal(waitpid(live.pid, &status, 0), live.pid);
    fclose(live.in);
}

static void options_that_make_no_sense_beside_these_are_refused(void **state) {
    const Place *p = *state;
    static const char *const more[][3] = {
        {"--live", "--ordered"}, {"--live", "--batch-text"},   {"--live", "--strict"},
        {"--live", "-o", "x"},   {"--logits", "x", "--check"},
    };
    for (size_t i = 0; i < 5; i++) {
        Process run = RUN("run", p->model, "--batch", "-", more[i][0], more[i][1], more[i][2]);
        assert_int_equal(run.status, 2);
        process_free(&run);
    }
    Process alone = RUN("run", p->model, "--live");
    assert_int_equal(alone.status, 2);
    process_free(&alone);
    static const char *const lines[][2] = {
        {"{\"info\": true}", "need --live"},
        {"{\"prompt\": \"a\", \"return_logits\": true}", "needs --logits FILE"}};
    for (size_t i = 0; i < 2; i++) {
        const char *const argv[] = {"run", p->model, "--batch", "-", NULL};
        Process run = process_run(argv, lines[i][0], strlen(lines[i][0]));
        assert_int_equal(run.status, 3);
        assert_non_null(strstr(run.out, lines[i][1]));
        process_free(&run);
    }
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_result_comes_at_once_with_its_line_and_ids_may_repeat),
        cmocka_unit_test(the_program_tells_what_it_runs_and_decodes_tokens),
        cmocka_unit_test(what_a_program_keeps_is_judged_as_resume_judges_it),
        cmocka_unit_test(a_cancelled_request_ends_and_the_others_go_on),
        cmocka_unit_test(a_kept_prompt_changes_no_answer),
        cmocka_unit_test(rows_of_logits_are_those_that_the_tokens_were_chosen_from),
        cmocka_unit_test(a_native_stream_adds_up_to_its_result),
        cmocka_unit_test(the_program_ends_when_nobody_reads),
        cmocka_unit_test(options_that_make_no_sense_beside_these_are_refused),
    };
    return cmocka_run_group_tests(tests, open_place, close_place);
}
