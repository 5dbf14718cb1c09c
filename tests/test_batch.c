/* Batches with the real program: each line gets its answer or its error. `make soak` runs more of
 * them; test_batch_files.c has what a run leaves in its files. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/batch_place.h"
#include "tests/fixture.h"
#include "tests/tier.h"

/* ---- Exact -------------------------------------------------------------------------------------
 */

static void each_result_is_what_the_request_gets_alone(void **state) {
    const BatchPlace *p = *state;
    enum { N = 24 };
    batch_write_cases(p->input, N);
    batch_place_expect(p, 0, MORE("--max-concurrent", "7", "-j", "2"), NULL);
    batch_check_results(p->model, p->output, N);
}

static void results_do_not_depend_on_concurrency_memory_or_chunks(void **state) {
    const BatchPlace *p = *state;
    batch_write_cases(p->input, 60);
    batch_place_expect(p, 0, MORE("--ordered"), NULL);
    rename(p->output, p->other);
    static const char *const variants[][6] = {
        {"--ordered", "--max-concurrent", "1"},
        {"--ordered", "--max-concurrent", "64", "-j", "1"},
        {"--ordered", "--max-concurrent", "7", "--chunk", "16"},
    };
    for (size_t i = 0; i < 3; i++) {
        batch_place_expect(p, 0, variants[i], NULL);
        batch_place_same_files(p->output, p->other);
        unlink(p->output);
    }
    /* There is so little memory that texts are set aside. */
    Process tight = batch_place_run(
        p, MORE("--ordered", "--max-concurrent", "32", "--kv-memory", "1M", "--stats"));
    assert_int_equal(tight.status, 0);
    assert_non_null(strstr(tight.err, "set aside"));
    assert_null(strstr(tight.err, ", 0 times a text was set aside"));
    batch_place_same_files(p->output, p->other);
    process_free(&tight);
}

/* Prompts with a common prefix and logprobs for each of their tokens. */
static void write_prompts_to_score(const char *path, size_t n) {
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    for (size_t i = 0; i < n; i++) {
        fprintf(f, "{\"prompt\": \"");
        for (size_t k = 0; k < 5 + 13 * i % 60; k++) fprintf(f, k % 7 ? " was a" : "Once there");
        fprintf(
            f,
            " %zu\", \"echo\": %s, \"logprobs\": %zu, \"max_tokens\": %zu, \"ignore_eos\": true}\n",
            i, i % 4 == 3 ? "false" : "true", i % 3, i % 2 * 120);
    }
    fclose(f);
}

static void prompts_are_scored_as_run_scores_them(void **state) {
    const BatchPlace *p = *state;
    static const char *const variants[][6] = {
        {"--ordered", "--max-concurrent", "1"},
        {"--ordered", "--max-concurrent", "64", "-j", "1"},
        {"--ordered", "--max-concurrent", "12", "--kv-memory", "500K", "--stats"},
        {"--ordered", "--chunk", "5"},
    };
    write_prompts_to_score(p->input, 24);
    batch_place_expect(p, 0, MORE("--ordered"), NULL);
    rename(p->output, p->other);
    for (size_t i = 0; i < 4; i++) {
        if (!tier_takes(i, 2, 1)) continue;
        Process result = batch_place_run(p, variants[i]);
        if (result.status != 0) fail_msg("%s", result.err);
        if (i == 2) assert_null(strstr(result.err, ", 0 times a text was set aside"));
        process_free(&result);
        batch_place_same_files(p->output, p->other);
        unlink(p->output);
    }
    size_t length;
    char *lines = file_read(p->input, &length);
    json_t *request = json_loads(lines, JSON_DISABLE_EOF_CHECK, NULL);
    json_t *answer = batch_place_result(p->other, 0);
    Process alone =
        RUN("run", p->model, "-i", batch_place_text(request, "prompt", NULL), "--score", "json");
    assert_int_equal(alone.status, 0);
    json_t *score = json_loads(alone.out, 0, NULL);
    const json_t *wanted = json_object_get(score, "tokens");
    const json_t *got = json_object_get(answer, "prompt_logprobs");
    assert_true(json_array_size(got) > 5);
    assert_int_equal(json_array_size(got), json_array_size(wanted));
    for (size_t i = 0; i < json_array_size(got); i++) {
        const json_t *a = json_array_get(got, i), *b = json_array_get(wanted, i);
        assert_int_equal(json_integer_value(json_object_get(a, "id")),
                         json_integer_value(json_object_get(b, "id")));
        assert_true(fabs(json_number_value(json_object_get(a, "logprob")) -
                         json_number_value(json_object_get(b, "logprob"))) < 1e-5);
    }
    assert_int_equal(json_integer_value(json_object_get(answer, "completion_tokens")), 0);
    json_decref(score);
    json_decref(answer);
    json_decref(request);
    process_free(&alone);
    free(lines);
}

static void samples_of_one_prompt_are_those_of_its_sample_numbers(void **state) {
    const BatchPlace *p = *state;
    batch_place_input(p, "{\"id\": 1, \"prompt\": \"Once upon\", \"n\": 5, \"max_tokens\": 12}\n"
                         "{\"id\": 2, \"prompt\": \"Once upon\", \"max_tokens\": 12}\n");
    batch_place_expect(p, 0, MORE("--ordered"), NULL);
    json_t *many = batch_place_result(p->output, 0), *one = batch_place_result(p->output, 1);
    const json_t *choices = json_object_get(many, "choices");
    assert_int_equal(json_array_size(choices), 5);
    assert_string_equal(batch_place_text(json_array_get(choices, 0), "text", NULL),
                        batch_place_text(one, "text", NULL));
    assert_string_not_equal(batch_place_text(json_array_get(choices, 1), "text", NULL),
                            batch_place_text(one, "text", NULL));
    json_decref(many);
    json_decref(one);
}

static void stdin_and_stdout_serve_as_well(void **state) {
    const BatchPlace *p = *state;
    batch_write_cases(p->input, 10);
    batch_place_expect(p, 0, MORE("--ordered"), NULL);
    size_t length, wanted;
    char *input = file_read(p->input, &length), *results = file_read(p->output, &wanted);
    const char *const argv[] = {"run", p->model, "--batch", "-", "--ordered", NULL};
    Process piped = process_run(argv, input, length);
    assert_int_equal(piped.status, 0);
    assert_int_equal(piped.out_length, wanted);
    assert_memory_equal(piped.out, results, wanted);
    process_free(&piped);
    free(input);
    free(results);
}

static void plain_text_is_a_prompt_a_line(void **state) {
    const BatchPlace *p = *state;
    batch_place_input(p, "Once upon a time\r\n\nThe cat\n");
    batch_place_expect(p, 0, MORE("--batch-text", "--ordered", "-n", "6", "-t", "0"), NULL);
    json_t *second = batch_place_result(p->output, 1);
    assert_int_equal(json_integer_value(json_object_get(second, "line")), 3);
    const char *const argv[] = {"run", p->model, "-i", "The cat", "-n", "6", "-t", "0", NULL};
    Process alone = process_run(argv, NULL, 0);
    alone.out[alone.out_length - 1] = '\0';
    /* A model with random weights writes bytes that are not UTF-8: in JSON they are U+FFFD. */
    json_t *utf8 = json_string(alone.out);
    if (utf8) assert_string_equal(batch_place_text(second, "text", NULL), alone.out);
    json_decref(utf8);
    process_free(&alone);
    json_decref(second);
}

/* ---- Lines that fail ---------------------------------------------------------------------------
 */

static const char bad_lines[] =
    "{\"id\": \"good\", \"prompt\": \"Tom\", \"max_tokens\": 3}\n"
    "this is not JSON\n"
    "{\"id\": \"typo\", \"prompt\": \"Tom\", \"temprature\": 1}\n"
    "{\"id\": \"type\", \"prompt\": \"Tom\", \"temperature\": \"hot\"}\n"
    "{\"id\": \"good\", \"prompt\": \"Tim\", \"max_tokens\": 3}\n"
    "{\"custom_id\": \"c\", \"method\": \"POST\", \"url\": \"/v1/images\", \"body\": {}}\n"
    "{\"id\": \"ids\", \"prompt\": [1, 100000000]}\n"
    "{\"id\": \"last\", \"prompt\": \"Ann\", \"max_tokens\": 3}\n";

static void a_bad_line_gets_an_error_and_the_run_goes_on(void **state) {
    const BatchPlace *p = *state;
    batch_place_input(p, bad_lines);
    batch_place_expect(p, 3, MORE("--ordered"), "6 of 8 lines failed: their results say why");
    static const char *const messages[] = {
        "", "not JSON", "temprature", "must be a number", "earlier line", "'url'", "token id", ""};
    for (size_t i = 0; i < 8; i++) {
        json_t *json = batch_place_result(p->output, i);
        assert_int_equal(strlen(messages[i]) > 0, json_is_object(json_object_get(json, "error")));
        assert_non_null(strstr(batch_place_text(json, "error", "message"), messages[i]));
        if (messages[i][0])
            assert_int_equal(json_integer_value(json_object_get(json, "line")), i + 1);
        assert_true(strncmp(batch_place_text(json, "system_fingerprint", NULL), "fp_", 3) == 0);
        json_decref(json);
    }
}

#define ASKED(id, parts)                                                                           \
    "{\"id\": \"" id "\", \"max_tokens\": 2, \"messages\": [{\"role\": \"user\", " parts "}]}\n"

static void nothing_in_a_message_is_left_out_silently(void **state) {
    const BatchPlace *p = *state;
    static const char *const why[] = {"",
                                      "number 1 has a part of type 'image_url'",
                                      "number 1 has a part of type 'input_audio'",
                                      "number 1 has 'images'",
                                      "'contnet' is not read",
                                      "'cache_control' is not read",
                                      "'text' has no 'text'",
                                      "",
                                      ""};
    batch_place_input(
        p,
        ASKED("a", "\"content\": [{\"type\": \"text\", \"text\": \"hi\"}], \"audio\": null") ASKED(
            "b", "\"content\": [{\"type\": \"image_url\", \"image_url\": {\"url\": \"x\"}}]")
            ASKED("c", "\"content\": [{\"type\": \"input_audio\", \"input_audio\": {}}]") ASKED(
                "d", "\"content\": \"what is it?\", \"images\": [\"x\"]")
                ASKED("e", "\"content\": \"hi\", \"contnet\": \"x\"") ASKED(
                    "f",
                    "\"content\": [{\"type\": \"text\", \"text\": \"hi\", \"cache_control\": 1}]")
                    ASKED("g", "\"content\": [{\"type\": \"text\"}]")
                        ASKED("h", "\"content\": \"hi\", \"name\": \"Ann\", \"annotations\": []")
                            ASKED("i", "\"content\": \"hi\", \"mood\": \"gay\""));
    static const char reads[] = "{{ messages[0].content }}{{ messages[0].mood }}";
    file_write(p->other, reads, strlen(reads));
    batch_place_expect(p, 3, MORE("--ordered", "--chat-template", p->other), "6 of 9 lines failed");
    unlink(p->other);
    for (size_t i = 0; i < sizeof why / sizeof *why; i++) {
        json_t *json = batch_place_result(p->output, i);
        const char *message = batch_place_text(json, "error", "message");
        if (!*why[i] != !*message || !strstr(message, why[i]))
            fail_msg("line %zu: %s", i + 1, message);
        json_decref(json);
    }
}

/* Expects line i of the results to fail with why[i], or to succeed where that is "". */
static void fails_with(const BatchPlace *p, const char *const *why, size_t n) {
    for (size_t i = 0; i < n; i++) {
        json_t *json = batch_place_result(p->output, i);
        const char *message = batch_place_text(json, "error", "message");
        if (!*why[i] != !*message || !strstr(message, why[i]))
            fail_msg("line %zu: %s", i + 1, message);
        json_decref(json);
    }
}

static void roles_and_contents_that_the_template_does_not_take_are_refused(void **state) {
    const BatchPlace *p = *state;
    static const char *const why[] = {
        "does not know the role 'usr'; did you mean 'user'?",
        "the key 'contents' is not read by the chat template; did you mean 'content'?",
        "number 1 has no 'content'",
        "does not know the role 'developer'; use 'system'",
        "does not know the role 'tool'",
        "must be a text or a list of parts",
        "does not know the role 'human'; use 'user'",
    };
    batch_place_input(p,
                      "{\"id\": 1, \"messages\": [{\"role\": \"usr\", \"content\": \"a\"}]}\n"
                      "{\"id\": 2, \"messages\": [{\"role\": \"user\", \"contents\": \"a\"}]}\n"
                      "{\"id\": 3, \"messages\": [{\"role\": \"user\", \"content\": null}]}\n"
                      "{\"id\": 4, \"messages\": [{\"role\": \"developer\", \"content\": \"a\"}]}\n"
                      "{\"id\": 5, \"messages\": [{\"role\": \"tool\", \"content\": \"a\"}]}\n"
                      "{\"id\": 6, \"messages\": [{\"role\": \"user\", \"content\": 5}]}\n"
                      "{\"id\": 7, \"messages\": [{\"role\": \"human\", \"content\": \"a\"}]}\n");
    batch_place_expect(p, 3, MORE("--ordered", "-n", "2"), "7 of 7 lines failed; line 1: ");
    fails_with(p, why, 7);
    /* A template that has a word for the role, and one that leaves the system message out. */
    static const char reads[] = "{% for m in messages if m.role in ['user', 'usr'] %}"
                                "{{ m.content }}{% endfor %}";
    static const char *const others[] = {"", "the chat template leaves the system message out"};
    file_write(p->other, reads, strlen(reads));
    unlink(p->output);
    batch_place_input(p, "{\"id\": 1, \"messages\": [{\"role\": \"usr\", \"content\": \"a\"}]}\n"
                         "{\"id\": 2, \"messages\": [{\"role\": \"system\", \"content\": \"a\"},"
                         " {\"role\": \"user\", \"content\": \"a\"}]}\n");
    batch_place_expect(p, 3, MORE("--ordered", "-n", "2", "--chat-template", p->other), "1 of 2");
    fails_with(p, others, 2);
    /* LFM 2.5's template writes the name of any role, and knows tools without the word for theirs
     * (models/templates/LFM2.5-8B-A1B.jinja in llama.cpp; jinja2 renders the conversation). */
    static const char any_role[] =
        "{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}{{ m.role }}: "
        "{% if m.get('content') %}{{ m.content }}{% endif %}{% if m.tool_calls is defined %}"
        "{% for call in m.tool_calls %}{% for name, value in call.function.arguments.items() %}"
        "{{ name }}={{ value }}{% endfor %}{% endfor %}{% endif %}\n{% endfor %}";
    static const char *const none[] = {"", "does not know the role 'tol'"};
    file_write(p->other, any_role, strlen(any_role));
    unlink(p->output);
    batch_place_input(p, "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}, {\"role\": "
                         "\"assistant\", \"content\": null, \"tool_calls\": [{\"id\": \"c\", "
                         "\"type\": \"function\", \"function\": {\"name\": \"f\", "
                         "\"arguments\": \"{\\\"x\\\": 1}\"}}]}, {\"role\": \"tool\", "
                         "\"tool_call_id\": \"c\", \"content\": \"b\"}]}\n"
                         "{\"messages\": [{\"role\": \"tol\", \"content\": \"a\"}]}\n");
    batch_place_expect(p, 3, MORE("--ordered", "-n", "2", "--chat-template", p->other), "1 of 2");
    fails_with(p, none, 2);
}

/* A list of texts is one text for a template that takes no lists, null beside calls is none. */
static void contents_come_in_every_form_that_the_api_has(void **state) {
    const BatchPlace *p = *state;
    static const char *const templates[] = {
        "{% for m in messages %}{{ m.role }} {{ m.content }}{{ m.tool_calls|length }}{% endfor %}",
        "{% for m in messages %}{{ m.role }} {% for part in m.content %}{{ part.text }}"
        "{{ '' if loop.last else '\\n' }}{% endfor %}{{ m.tool_calls|length }}{% endfor %}",
    };
    for (size_t i = 0; i < 2; i++) {
        file_write(p->other, templates[i], strlen(templates[i]));
        unlink(p->output);
        batch_place_input(p,
                          "{\"id\": 1, \"messages\": [{\"role\": \"user\", \"content\": \"a\\nb\"},"
                          " {\"role\": \"assistant\", \"content\": \"\", \"tool_calls\": [1]}]}\n"
                          "{\"id\": 2, \"messages\": [{\"role\": \"user\", \"content\": [{\"type\":"
                          " \"text\", \"text\": \"a\"}, {\"type\": \"text\", \"text\": \"b\"}]},"
                          " {\"role\": \"assistant\", \"content\": null, \"tool_calls\": [1]}]}\n");
        batch_place_expect(p, 0, MORE("--ordered", "-n", "6", "--chat-template", p->other), NULL);
        json_t *plain = batch_place_result(p->output, 0), *parts = batch_place_result(p->output, 1);
        assert_int_equal(json_integer_value(json_object_get(plain, "prompt_tokens")),
                         json_integer_value(json_object_get(parts, "prompt_tokens")));
        json_decref(plain);
        json_decref(parts);
    }
}

static void strict_finishes_what_it_has_begun(void **state) {
    const BatchPlace *p = *state;
    batch_place_input(p, "{\"id\": \"a\", \"prompt\": \"Tom\", \"max_tokens\": 30}\n"
                         "{\"id\": \"b\", \"prompt\": \"Tim\", \"max_tokens\": 20}\n"
                         "{\"id\": \"c\", \"prompt\": 5}\n"
                         "{\"id\": \"d\", \"prompt\": \"Ann\", \"max_tokens\": 2}\n");
    static const char *const orders[] = {"-n9", "--ordered"};
    for (size_t i = 0; i < 2; i++) {
        unlink(p->output);
        batch_place_expect(p, 3, MORE("--strict", orders[i]), "2 lines are answered");
        char *lines = batch_sorted_lines(p->output);
        assert_non_null(strstr(lines, "\"a\""));
        assert_non_null(strstr(lines, "\"b\""));
        assert_null(strstr(lines, "\"c\""));
        assert_null(strstr(lines, "\"d\""));
        free(lines);
        /* Without a result the line is tried again, and is mended meanwhile. */
        batch_place_expect(p, 3, MORE("--strict", "--resume", orders[i]),
                           "line 3: 'prompt' must be");
    }
}

static void a_second_line_of_an_id_fails_under_its_id(void **state) {
    const BatchPlace *p = *state;
    static const char line[] =
        "{\"custom_id\": \"a\", \"method\": \"POST\", \"url\": \"/v1/completions\", \"body\": "
        "{\"prompt\": \"Tom\", \"max_tokens\": 2}}\n";
    char both[sizeof line * 2];
    snprintf(both, sizeof both, "%s%s", line, line);
    batch_place_input(p, both);
    batch_place_expect(p, 3, MORE("--ordered"), "1 of 2");
    json_t *json = batch_place_result(p->output, 1);
    assert_string_equal(batch_place_text(json, "custom_id", NULL), "a");
    assert_string_equal(batch_place_text(json, "error", "code"), "duplicate_id");
    json_decref(json);
    rename(p->output, p->other);
    batch_place_expect(p, 3, MORE("--ordered"), "1 of 2");
    batch_place_expect(p, 3, MORE("--ordered", "--resume"), "1 of 2");
    batch_place_same_files(p->output, p->other);
}

/* The last tokens are kept, after what begins a text: the same prompt as its ids. */
static void long_prompts_are_cut_where_the_request_asks_for_it(void **state) {
    const BatchPlace *p = *state;
    char text[2048] = "", line[16384], ids[2048];
    for (size_t i = 0; i < 400; i++) strcat(text, i % 7 == 3 ? " cat" : " a");
    const char *const tokenize[] = {"run", p->model, "--tokenize", "--bos",
                                    "yes", "-i",     text,         NULL};
    Process all = process_run(tokenize, NULL, 0);
    assert_int_equal(all.status, 0);
    size_t n = 0;
    for (char *c = all.out; *c; c++) n += *c == ' ';
    n++;
    /* The first id and the last nine. */
    char *at = all.out + strlen(all.out), *first = strtok(strdup(all.out), " ");
    for (size_t spaces = 0; spaces < 9; spaces += *at == ' ') at--;
    for (char *c = at; *c; c++)
        if (*c == ' ') *c = ',';
    snprintf(ids, sizeof ids, "%s%.*s", first, (int)strcspn(at, "\n"), at);
    free(first);
    process_free(&all);
    snprintf(
        line, sizeof line,
        "{\"id\": 1, \"prompt\": \"%s\", \"truncate_prompt_tokens\": 10, \"max_tokens\": 6}\n"
        "{\"id\": 2, \"prompt\": [%s], \"max_tokens\": 6}\n"
        "{\"id\": 3, \"prompt\": \"%s\", \"truncate_prompt_tokens\": -1, \"max_tokens\": 300}\n"
        "{\"id\": 4, \"prompt\": \"%s\", \"truncate_prompt_tokens\": 0}\n"
        "{\"id\": 5, \"prompt\": \"Tom\", \"truncate_prompt_tokens\": 50, \"max_tokens\": 2}\n",
        text, ids, text, text);
    batch_place_input(p, line);
    batch_place_expect(p, 3, MORE("--ordered", "-c", "500"), "1 of 5 lines failed");
    json_t *cut = batch_place_result(p->output, 0), *given = batch_place_result(p->output, 1);
    assert_string_equal(batch_place_text(cut, "text", NULL), batch_place_text(given, "text", NULL));
    assert_int_equal(json_integer_value(json_object_get(cut, "prompt_tokens")), 10);
    assert_int_equal(json_integer_value(json_object_get(cut, "truncated_prompt_tokens")), n - 10);
    assert_null(json_object_get(given, "truncated_prompt_tokens"));
    json_decref(cut);
    json_decref(given);
    json_t *room = batch_place_result(p->output, 2), *none = batch_place_result(p->output, 3);
    assert_int_equal(json_integer_value(json_object_get(room, "prompt_tokens")), 200);
    assert_non_null(strstr(batch_place_text(none, "error", "message"), "must be -1 or at least 1"));
    json_decref(room);
    json_decref(none);
    json_t *brief = batch_place_result(p->output, 4);
    assert_null(json_object_get(brief, "truncated_prompt_tokens"));
    json_decref(brief);
}

static void a_prompt_that_cannot_fit_is_refused_before_it_is_encoded(void **state) {
    const BatchPlace *p = *state;
    enum { LENGTH = 8 << 20 };
    char *line = malloc(LENGTH + 64);
    int head = sprintf(line, "{\"id\": 1, \"prompt\": \"");
    memset(line + head, 'a', LENGTH);
    int tail = sprintf(line + head + LENGTH, "\"}\n");
    file_write(p->input, line, (size_t)head + LENGTH + (size_t)tail);
    free(line);
    batch_place_expect(p, 3, NULL, "1 of 1 lines failed");
    static const char *const why[] = {"the prompt of 8388608 bytes is too long"};
    fails_with(p, why, 1);
}

static void strict_stops_at_the_first_bad_line(void **state) {
    const BatchPlace *p = *state;
    batch_place_input(p, bad_lines);
    batch_place_expect(p, 3, MORE("--strict"), "line 2: not JSON");
}

/* ---- Tables ---- */

/* Runs the model over a table with more options (up to 6) and returns what it did. */
static Process table(const BatchPlace *p, const char *text, const char *prompt,
                     const char *const *more) {
    char *path = fixture_path(p->directory, "rows.csv");
    const char *argv[16] = {"run", p->model, "--batch", path, "-i", prompt, "-n", "3", "--ordered"};
    size_t n = 9;
    for (size_t i = 0; more && more[i]; i++) argv[n++] = more[i];
    file_write(path, text, strlen(text));
    Process result = process_run(argv, NULL, 0);
    unlink(path);
    free(path);
    return result;
}

/* A row's result is that of the same prompt as a line, with the row's number. */
static void rows_of_a_table_are_filled_into_the_prompt(void **state) {
    const BatchPlace *p = *state;
    static const char rows[] = "\xEF\xBB\xBFname,text\r\n"
                               "Ann,\"a cat, a \"\"big\"\" dog\"\r\n\r\n"
                               "Bob,\"two\r\nlines\"\r\n"
                               "Eve,5\" disk";
    static const char lines[] = "{\"prompt\": \"{Ann} saw a cat, a \\\"big\\\" dog.\"}\n"
                                "{\"prompt\": \"{Bob} saw two\\r\\nlines.\"}\n"
                                "{\"prompt\": \"{Eve} saw 5\\\" disk.\"}\n";
    batch_place_input(p, lines);
    Process wanted = batch_run_program(p->model, p->input, NULL, MORE("-n", "3", "--ordered"));
    Process got = table(p, rows, "{{{name}}} saw {text}.", NULL);
    assert_int_equal(wanted.status, 0);
    if (got.status != 0) fail_msg("%s", got.err);
    for (size_t i = 1; i <= 3; i++) {
        char number[32];
        snprintf(number, sizeof number, "\"line\": %zu", i);
        assert_non_null(strstr(got.out, number));
    }
    json_t *a, *b;
    char *x = wanted.out, *y = got.out;
    for (size_t i = 0; i < 3; i++, x = strchr(x, '\n') + 1, y = strchr(y, '\n') + 1) {
        a = json_loads(x, JSON_DISABLE_EOF_CHECK, NULL);
        b = json_loads(y, JSON_DISABLE_EOF_CHECK, NULL);
        assert_string_equal(batch_place_text(a, "text", NULL), batch_place_text(b, "text", NULL));
        json_decref(a);
        json_decref(b);
    }
    process_free(&wanted);
    process_free(&got);
}

/* pandas.read_csv passes over lines that are empty or blank (skip_blank_lines, pandas 3.1.1: of
 * this table it reads Ann, "  " and Eve), so that df.iloc[line - 1] is the row of a result. A field
 * of blanks in quotes is a row, and has its result. */
static void each_row_that_is_counted_has_a_result(void **state) {
    const BatchPlace *p = *state;
    static const char rows[] = "name\nAnn\n   \n\n\"  \"\n \t\r\nEve\n";
    Process r = table(p, rows, "{name} sat", NULL);
    if (r.status != 0) fail_msg("%s", r.err);
    const char *at = r.out;
    for (int i = 1; i <= 3; i++) {
        char wanted[32];
        snprintf(wanted, sizeof wanted, "{\"line\": %d, ", i);
        if (!at || strncmp(at, wanted, strlen(wanted)) != 0) fail_msg("%s", r.out);
        at = strchr(at, '\n') + 1;
    }
    assert_string_equal(at, "");
    process_free(&r);
    /* With a tab between columns blanks are fields. */
    r = table(p, "a\tb\nx\ty\n\t\nz\tw\n", "{a}{b} sat", NULL);
    assert_int_equal(r.status, 0);
    assert_non_null(strstr(r.out, "{\"line\": 3, "));
    process_free(&r);
    r = table(p, "a\tb\nx\ty\n   \nz\tw\n", "{a}{b} sat", NULL);
    assert_int_equal(r.status, 0);
    assert_non_null(strstr(r.out, "{\"line\": 2, "));
    assert_null(strstr(r.out, "{\"line\": 3, "));
    process_free(&r);
}

static void a_column_of_a_table_is_the_id(void **state) {
    const BatchPlace *p = *state;
    static const char rows[] = "key,name\nk7,Ann\n8,Bob\n,Eve\nk7,Tim\n";
    Process r = table(p, rows, "{name} sat", MORE("--csv-id", "key"));
    assert_int_equal(r.status, 3);
    assert_non_null(strstr(r.out, "{\"id\": \"k7\", "));
    assert_non_null(strstr(r.out, "{\"id\": \"8\", "));
    assert_non_null(strstr(r.out, "its id, in column 'key', is empty"));
    assert_non_null(strstr(r.out, "an earlier line has the same id, \\\"k7\\\""));
    process_free(&r);
    r = table(p, rows, "{name} sat", MORE("--csv-id", "kye"));
    assert_int_equal(r.status, 1);
    assert_non_null(strstr(r.err, "has no column 'kye'; did you mean key; its columns: key, name"));
    process_free(&r);
    r = RUN("run", p->model, "--batch", p->input, "--csv-id", "key");
    assert_int_equal(r.status, 2);
    process_free(&r);
}

/* 30,000 times a megabyte would be 30 GB of one prompt. */
static void a_prompt_of_a_row_is_bounded(void **state) {
    const BatchPlace *p = *state;
    enum { FIELD = 1 << 20, TIMES = 70 };
    char *rows = malloc(FIELD + 16), *prompt = malloc(3 * TIMES + 1);
    assert_true(rows && prompt);
    memcpy(rows, "a\n", 2);
    memset(rows + 2, 'x', FIELD);
    memcpy(rows + 2 + FIELD, "\n", 2);
    for (size_t i = 0; i < TIMES; i++) memcpy(prompt + 3 * i, "{a}", 4);
    Process r = table(p, rows, prompt, NULL);
    assert_int_equal(r.status, 3);
    assert_non_null(strstr(r.out, "its prompt is longer than 64 MiB"));
    process_free(&r);
    free(rows);
    free(prompt);
}

/* Lines of JSON in a file called results.csv are told about; in one called results.jsonl, not. */
static void results_in_a_file_with_a_tables_name_are_told_about(void **state) {
    const BatchPlace *p = *state;
    static const char *const names[] = {"results.csv", "results.NPY", "results.jsonl", "csv"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char *path = fixture_path(p->directory, names[i]);
        Process r = table(p, "text\nOnce\n", "{text}", MORE("-o", path));
        if (r.status != 0) fail_msg("%s", r.err);
        assert_int_equal(strstr(r.err, "the results are lines of JSON") != NULL, i < 2);
        assert_int_equal(strstr(r.err, "/results.jsonl says") != NULL, i < 2);
        process_free(&r);
        unlink(path);
        free(path);
    }
}

static void a_table_that_is_embedded_line_by_line_is_told_about(void **state) {
    const BatchPlace *p = *state;
    char *path = fixture_path(p->directory, "rows.csv");
    file_write(path, "text\nOnce\n", 10);
    Process r = RUN("run", p->model, "--embed", path, "--pooling", "mean");
    assert_int_equal(r.status, 0);
    if (!strstr(r.err, "each line of the table is a text, its header too")) fail_msg("%s", r.err);
    process_free(&r);
    unlink(path);
    free(path);
}

static void expect_failure(Process *r, int status, const char *says) {
    assert_int_equal(r->status, status);
    if (!strstr(r->err, says)) fail_msg("not '%s': %s", says, r->err);
    process_free(r);
}

static void rows_and_prompts_that_are_wrong_are_told_by_number_and_name(void **state) {
    const BatchPlace *p = *state;
    static const char rows[] = "text;n\none;1\ntwo\n\"three\"x;3\n\xFF;4\nfive;5\n\"six;6\n";
    Process r = table(p, rows, "{text}", NULL);
    assert_int_equal(r.status, 3);
    assert_non_null(strstr(r.out, "the row has 1 field, but the header has 2"));
    assert_non_null(strstr(r.out, "field 1: 'x' stands after its closing quote"));
    assert_non_null(strstr(r.out, "not UTF-8 text: byte 0xff"));
    assert_non_null(strstr(r.out, "a quote is not closed"));
    assert_non_null(strstr(r.err, "4 of 6 lines failed"));
    process_free(&r);
    static const struct {
        const char *prompt, *says;
    } cases[] = {
        {"{txt}", "has no column 'txt'; did you mean {text}; its columns: text, n"},
        {"Hello", "names no {column}"},
        {"{text", "'{' at byte 1 belongs to no {column}"},
        {"text}", "'}' at byte 5 belongs to no {column}"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        r = table(p, rows, cases[i].prompt, NULL);
        assert_int_equal(r.status, 1);
        if (!strstr(r.err, cases[i].says)) fail_msg("%s: %s", cases[i].prompt, r.err);
        process_free(&r);
    }
    r = table(p, "a,b,a\n1,2,3\n", "{b}{a}", NULL);
    expect_failure(&r, 1, "columns 1 and 3 are both called 'a': rename one");
    r = table(p, "a,b,a\n1,2,3\n", "{b}", NULL); /* a column that nobody names */
    assert_int_equal(r.status, 0);
    process_free(&r);
    r = RUN("run", p->model, "--batch", "no-rows.csv");
    expect_failure(&r, 1, "no-rows.csv: No such file or directory");
    r = RUN("run", p->model, "--batch", "no-rows.csv", "-i", "{text}");
    expect_failure(&r, 1, "no-rows.csv: No such file or directory");
    char *there = fixture_path(p->directory, "rows.csv");
    file_write(there, "a\n1\n", 4);
    r = RUN("run", p->model, "--batch", there);
    expect_failure(&r, 2, "-i 'Summarize: {text}'");
    unlink(there);
    free(there);
    file_write(p->other, "\x1F\x8B\x08\x08", 4);
    r = RUN("run", p->model, "--batch", p->other);
    expect_failure(&r, 1, "compressed by gzip; its lines are read from a pipe: zcat ");
    char *piped = NULL, *run = program_command("run");
    assert_true(asprintf(&piped, "%s %s --batch - <%s", run, p->model, p->other) > 0);
    r = RUN("/bin/sh", "-c", piped);
    expect_failure(&r, 1,
                   "stdin: compressed by gzip; its lines are read from a pipe: zcat FILE | ");
    free(piped);
    free(run);
    r = RUN("run", p->model, "--batch", "rows.txt", "-i", "{text}");
    expect_failure(&r, 2, "A table, whose rows -i takes, is FILE.csv, FILE.tsv or has --csv");
    char *packed = NULL, *says = NULL;
    assert_true(asprintf(&packed, "%s.csv.gz", p->other) > 0);
    assert_true(asprintf(&says,
                         "compressed by gzip; its lines are read from a pipe: zcat %s | ... "
                         "--batch - --csv",
                         packed) > 0);
    file_write(packed, "\x1F\x8B\x08\x08", 4);
    r = RUN("run", p->model, "--batch", packed, "-i", "{text}");
    expect_failure(&r, 1, says);
    unlink(packed);
    free(packed);
    free(says);
}

/* Files of other programs that would be long bad lines, and files without a line. */
static void what_holds_no_requests_is_told_about(void **state) {
    const BatchPlace *p = *state;
    static const struct {
        const char *bytes;
        size_t length;
        const char *says;
    } others[] = {
        {"PAR1\x15\0", 6, "a Parquet file; pandas.read_parquet(FILE)"},
        {"PK\x03\x04\x14\0", 6, "a ZIP archive or a spreadsheet"},
        {"\xFF\xFE{\0}\0", 6, "UTF-16 text; iconv -f UTF-16 -t UTF-8 FILE"},
    };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        file_write(p->other, others[i].bytes, others[i].length);
        Process r = RUN("run", p->model, "--batch", p->other);
        expect_failure(&r, 1, others[i].says);
    }
    file_write(p->other, "PAR1 is a golf score\n", 21);
    Process r = RUN("run", p->model, "--batch", p->other, "--batch-text", "-n", "1");
    expect_failure(&r, 0, "");
    file_write(p->other, "\n", 1);
    r = RUN("run", p->model, "--batch", p->other);
    expect_failure(&r, 0, "holds no request, so nothing is answered");
    r = table(p, "text,n\n", "{text}", NULL);
    expect_failure(&r, 0, "has no rows below its header, so nothing is answered");
    file_write(p->other, "", 0);
    r = RUN("run", p->model, "--embed", p->other, "--pooling", "mean");
    expect_failure(&r, 0, "holds no text, so nothing is answered");
}

#define WITH_TOOLS(id)                                                                             \
    "{\"id\": \"" id "\", \"tokens\": 2, \"tools\": [{\"type\": \"function\", \"function\": "      \
    "{\"name\": \"now\"}}], \"messages\": [{\"role\": \"user\", \"content\": \"When?\"}]}\n"

/* Tools that the model would never see, or whose calls could not be told from its text. */
static void tools_that_the_template_cannot_take_are_refused(void **state) {
    const BatchPlace *p = *state;
    static const struct {
        const char *template, *error;
    } templates[] = {
        {"{{ messages[0].content }}", "'tools': the chat template does not read them"},
        {"{{ tools }}{{ messages[0].content }}",
         "'tools': the chat template writes calls of tools in no format that this program knows"},
        {"{{ tools }}<tool_call>{\"arguments\"{{ messages[0].content }}", NULL}};
    for (size_t i = 0; i < sizeof templates / sizeof *templates; i++) {
        batch_place_input(p, WITH_TOOLS("a"));
        file_write(p->other, templates[i].template, strlen(templates[i].template));
        batch_place_expect(p, templates[i].error ? 3 : 0,
                           MORE("--ordered", "--chat-template", p->other), NULL);
        json_t *json = batch_place_result(p->output, 0);
        const char *message = batch_place_text(json, "error", "message");
        if (templates[i].error) assert_string_equal(message, templates[i].error);
        json_decref(json);
        unlink(p->other);
        unlink(p->output);
    }
}

/* Writes a model of 64 tokens into the directory, whose tokenizer has 28: the letters, a space and
 * a special token. Returns its path; the caller frees it. */
static char *short_of_tokens(const char *directory) {
    char *tokenizer = fixture_path(directory, "tokenizer.json");
    char *model = fixture_path(directory, "short.bin");
    FILE *f = fopen(tokenizer, "w");
    assert_non_null(f);
    fputs("{\"added_tokens\": [{\"id\": 27, \"content\": \"<s>\", \"special\": true}], "
          "\"decoder\": {\"type\": \"Fuse\"}, "
          "\"model\": {\"type\": \"BPE\", \"merges\": [], \"vocab\": {\" \": 26, \"<s>\": 27",
          f);
    for (int i = 0; i < 26; i++) fprintf(f, ", \"%c\": %d", 'a' + i, i);
    fputs("}}}\n", f);
    assert_int_equal(fclose(f), 0);
    Process p = RUN("export", "random:tiny,vocab_size=64", model, "-q", "-z", tokenizer);
    if (p.status) fail_msg("%s", p.err);
    process_free(&p);
    unlink(tokenizer);
    free(tokenizer);
    return model;
}

/* A result's text without the tokens beyond the tokenizer, by its log-probabilities' ids. */
static void assert_text_of_ids(const json_t *result) {
    const json_t *list = json_object_get(result, "logprobs");
    char text[64] = "";
    size_t n = 0, n_beyond = 0;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *token = json_array_get(list, i);
        json_int_t id = json_integer_value(json_object_get(token, "id"));
        if (id < 27) text[n++] = id < 26 ? (char)('a' + id) : ' ';
        if (id < 28) continue;
        assert_string_equal(batch_place_text(token, "token", NULL), "");
        assert_int_equal(json_array_size(json_object_get(token, "bytes")), 0);
        n_beyond++;
    }
    assert_true(n > 0 && n_beyond > 0);
    assert_string_equal(batch_place_text(result, "text", NULL), text);
}

/* Qwen2.5 has 151,936 rows and 151,665 tokens: any row may be drawn. transformers' decode leaves
 * out an id without a token, and so do we: the text goes on. */
static void a_row_beyond_the_tokenizer_has_no_text(void **state) {
    const BatchPlace *p = *state;
    char *model = short_of_tokens(p->directory), *receipt = fixture_path(p->directory, "receipt");
    BatchPlace place = *p;
    place.model = model;
    batch_place_input(
        p, "{\"prompt\": \"a\", \"max_tokens\": 20, \"top_p\": 1, \"logprobs\": 1}\n"
           "{\"prompt\": \"a\", \"max_tokens\": 6, \"logit_bias\": {\"60\": 100}, \"n\": 2}\n"
           "{\"prompt\": [0, 60, 1], \"max_tokens\": 1, \"logit_bias\": {\"2\": 100}, "
           "\"echo\": true}\n"
           "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}], \"max_tokens\": 5, "
           "\"logit_bias\": {\"61\": 100}}\n"
           "{\"prompt\": \"a\", \"regex\": \"[^x]{5}\", \"logit_bias\": {\"60\": 100}}\n");
    batch_place_expect(&place, 0, MORE("--ordered", "--receipt", receipt), NULL);
    json_t *drawn = batch_place_result(p->output, 0), *biased = batch_place_result(p->output, 1);
    json_t *echo = batch_place_result(p->output, 2), *chat = batch_place_result(p->output, 3);
    json_t *shape = batch_place_result(p->output, 4);
    assert_text_of_ids(drawn);
    for (size_t i = 0; i < 2; i++) {
        const json_t *choice = json_array_get(json_object_get(biased, "choices"), i);
        assert_string_equal(batch_place_text(choice, "text", NULL), "");
        assert_int_equal(json_integer_value(json_object_get(choice, "completion_tokens")), 6);
    }
    assert_string_equal(batch_place_text(echo, "text", NULL), "abc");
    assert_string_equal(batch_place_text(chat, "finish_reason", NULL), "length");
    assert_int_equal(json_integer_value(json_object_get(shape, "completion_tokens")), 5);
    assert_int_equal(strlen(batch_place_text(shape, "text", NULL)), 5);
    json_decref(drawn), json_decref(biased), json_decref(echo);
    json_decref(chat), json_decref(shape);
    Process r = RUN("run", model, "--batch", p->input, "--check", p->output, "--quiet");
    PROCESS_SAYS(r, 0, "5 same");
    r = RUN("run", model, "--replay", receipt, "--quiet");
    PROCESS_SAYS(r, 0, "0 different");

    Process plain = RUN("run", model, "-i", "abab", "-n", "40", "-s", "3", "-p", "1", "-t", "1",
                        "--draft", "none");
    Process drafts = RUN("run", model, "-i", "abab", "-n", "40", "-s", "3", "-p", "1", "-t", "1",
                         "--draft-model", model);
    assert_int_equal(plain.status, 0);
    assert_int_equal(drafts.status, 0);
    assert_string_equal(plain.out, drafts.out);
    assert_true(strlen(plain.out) > 5 && strlen(plain.out) < 40);
    process_free(&plain);
    process_free(&drafts);
    static const char ids[] = "0 60 1 63";
    const char *detokenize[] = {"run", model, "--detokenize", NULL};
    r = process_run(detokenize, ids, sizeof ids - 1);
    assert_int_equal(r.status, 0);
    assert_string_equal(r.out, "ab");
    process_free(&r);
    r = process_run(detokenize, "64", 2);
    PROCESS_SAYS(r, 1, "'64' is not a token id from 0 to 63");
    unlink(model), unlink(receipt);
    free(model), free(receipt);
}

static void openai_batches_are_answered_in_kind(void **state) {
    const BatchPlace *p = *state;
    static const char reads_tools[] =
        "{% if tools %}Answer by <tool_call> with \"arguments\" {{ tools | length }}\n{% endif %}"
        "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}";
    file_write(p->other, reads_tools, strlen(reads_tools));
    Process result = batch_run_program(p->model, "tests/fixtures/openai-batch.jsonl", p->output,
                                       MORE("--ordered", "--chat-template", p->other));
    unlink(p->other);
    if (result.status != 0) fail_msg("status %d: %s", result.status, result.err);
    process_free(&result);
    for (size_t i = 0; i < 16; i++) {
        char id[32];
        json_t *json = batch_place_result(p->output, i);
        const json_t *response = json_object_get(json, "response");
        const json_t *body = json_object_get(response, "body");
        snprintf(id, sizeof id, "request-%zu", i);
        assert_string_equal(batch_place_text(json, "custom_id", NULL), id);
        assert_int_equal(json_integer_value(json_object_get(response, "status_code")), 200);
        assert_string_equal(batch_place_text(body, "object", NULL),
                            i < 8 ? "chat.completion" : "text_completion");
        assert_true(json_array_size(json_object_get(body, "choices")) >= 1);
        json_decref(json);
    }
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
#define TEST(name) cmocka_unit_test_setup_teardown(name, NULL, batch_place_clean)
    const struct CMUnitTest tests[] = {
        TEST(each_result_is_what_the_request_gets_alone),
        TEST(results_do_not_depend_on_concurrency_memory_or_chunks),
        TEST(prompts_are_scored_as_run_scores_them),
        TEST(samples_of_one_prompt_are_those_of_its_sample_numbers),
        TEST(stdin_and_stdout_serve_as_well),
        TEST(plain_text_is_a_prompt_a_line),
        TEST(a_bad_line_gets_an_error_and_the_run_goes_on),
        TEST(nothing_in_a_message_is_left_out_silently),
        TEST(roles_and_contents_that_the_template_does_not_take_are_refused),
        TEST(contents_come_in_every_form_that_the_api_has),
        TEST(strict_finishes_what_it_has_begun),
        TEST(a_second_line_of_an_id_fails_under_its_id),
        TEST(long_prompts_are_cut_where_the_request_asks_for_it),
        TEST(a_prompt_that_cannot_fit_is_refused_before_it_is_encoded),
        TEST(strict_stops_at_the_first_bad_line),
        TEST(rows_of_a_table_are_filled_into_the_prompt),
        TEST(each_row_that_is_counted_has_a_result),
        TEST(a_column_of_a_table_is_the_id),
        TEST(a_prompt_of_a_row_is_bounded),
        TEST(results_in_a_file_with_a_tables_name_are_told_about),
        TEST(a_table_that_is_embedded_line_by_line_is_told_about),
        TEST(rows_and_prompts_that_are_wrong_are_told_by_number_and_name),
        TEST(what_holds_no_requests_is_told_about),
        TEST(tools_that_the_template_cannot_take_are_refused),
        TEST(a_row_beyond_the_tokenizer_has_no_text),
        TEST(openai_batches_are_answered_in_kind),
    };
    return cmocka_run_group_tests(tests, batch_place_open, batch_place_close);
}
