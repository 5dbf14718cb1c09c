/* Requests that score prompts: what lm-evaluation-harness and its like ask a batch for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include <jansson.h>

#include "formats/json.h"
#include "tests/fixture.h"
#include "tests/process.h"

static const char MODEL[] = "models/stories.bin";

/* The results of these requests, in their order: a new array. *err receives what --stats says. */
static json_t *answers(const char *requests, const char *context, char **err) {
    char *directory = fixture_directory(), *path = fixture_path(directory, "requests.jsonl");
    file_write(path, requests, strlen(requests));
    Process p =
        RUN("run", MODEL, "--batch", path, "--ordered", "-t", "0", "-c", context, "--stats");
    json_t *all = json_array();
    for (char *line = strtok(p.out, "\n"); line; line = strtok(NULL, "\n"))
        json_array_append_new(all, json_loads(line, 0, NULL));
    if (err) *err = strdup(p.err);
    process_free(&p);
    free(path);
    fixture_remove_directory(directory);
    return all;
}

static const json_t *field(const json_t *all, size_t i, const char *name) {
    const json_t *value = json_object_get(json_array_get(all, i), name);
    if (!value) fail_msg("result %zu has no %s: %s", i, name, json_dumps(all, JSON_COMPACT));
    return value;
}

#define SCORED "\"max_tokens\": 0, \"echo\": true, \"logprobs\": 2"

static void tokens_before_the_first_are_not_scored(void **state) {
    (void)state;
    json_t *all = answers(
        "{\"prompt\": \"Once upon a time there was\", " SCORED "}\n"
        "{\"prompt\": \"Once upon a time there was\", " SCORED ", \"logprob_start_len\": 4}\n"
        "{\"prompt\": \"Once upon a time there was\", " SCORED ", \"logprob_start_len\": 40}\n"
        "{\"prompt\": \"Once upon a time there was\", " SCORED ", \"logprob_start_len\": -1}\n",
        "64", NULL);
    const json_t *whole = field(all, 0, "prompt_logprobs"),
                 *tail = field(all, 1, "prompt_logprobs");
    size_t n = json_array_size(whole), m = json_array_size(tail);
    assert_int_equal(n, json_integer_value(field(all, 0, "prompt_tokens")) - 1);
    assert_int_equal(m, n - 3);
    for (size_t i = 0; i < m; i++)
        assert_true(json_equal(json_array_get(whole, i + 3), json_array_get(tail, i)));
    assert_int_equal(json_array_size(field(all, 2, "prompt_logprobs")), 0);
    assert_true(json_equal(field(all, 3, "prompt_logprobs"), whole));
    json_decref(all);
}

/* As many ids as a context of 64 holds and one more: the last is scored, not run. */
static void a_prompt_that_is_scored_may_have_one_token_more_than_the_context(void **state) {
    (void)state;
    char ids[512] = "906", longer[512];
    for (int i = 1; i < 65; i++) strcat(ids, ", 260");
    snprintf(longer, sizeof longer, "%s, 260", ids);
    char requests[2048];
    snprintf(requests, sizeof requests,
             "{\"prompt\": [%s], " SCORED "}\n{\"prompt\": [%s], " SCORED "}\n"
             "{\"prompt\": [%s], \"max_tokens\": 1}\n",
             ids, longer, ids);
    json_t *all = answers(requests, "64", NULL), *wider = answers(requests, "128", NULL);
    assert_int_equal(json_array_size(field(all, 0, "prompt_logprobs")), 64);
    assert_true(json_equal(field(all, 0, "prompt_logprobs"), field(wider, 0, "prompt_logprobs")));
    field(all, 1, "error");
    field(all, 2, "error");
    json_decref(all);
    json_decref(wider);
}

/* Four endings of one context are computed beside it, once. */
static void scored_prompts_share_their_context(void **state) {
    (void)state;
    char requests[8192] = "", context[1024] = "0", *err;
    for (int i = 0; i < 200; i++) strcat(context, i % 3 ? ", 260" : ", 906");
    for (int i = 0; i < 4; i++) {
        char line[2048];
        snprintf(line, sizeof line,
                 "{\"prompt\": [%s, %d, %d], " SCORED ", \"logprob_start_len\": 201}\n", context,
                 300 + i, 400 + i);
        strcat(requests, line);
    }
    json_t *all = answers(requests, "256", &err);
    char *shared = strstr(err, "tokens computed, ");
    assert_non_null(shared);
    assert_true(atoi(shared + strlen("tokens computed, ")) >= 3 * 192);
    for (size_t i = 0; i < 4; i++) {
        const json_t *scores = field(all, i, "prompt_logprobs");
        assert_int_equal(json_array_size(scores), 2);
        assert_int_equal(json_integer_value(json_object_get(json_array_get(scores, 0), "id")),
                         300 + i);
    }
    json_decref(all);
    free(err);
}

static void expect_ids(const json_t *got, const char *expected) {
    char *text = json_dumps(got, JSON_COMPACT);
    assert_string_equal(text, expected);
    free(text);
}

static void ids_are_given_back(void **state) {
    (void)state;
    json_t *all = answers(
        "{\"prompt\": \"Once upon\", \"max_tokens\": 2, \"return_token_ids\": true}\n"
        "{\"prompt\": \"Once<|endoftext|>\", \"max_tokens\": 0, \"return_token_ids\": true, "
        "\"parse_special\": true, \"add_special_tokens\": false}\n"
        "{\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}], \"max_tokens\": 0, "
        "\"return_prompt\": true}\n"
        "{\"prompt\": \"x\", \"return_prompt\": true}\n"
        "{\"messages\": [], \"parse_special\": true}\n"
        "{\"prompt\": \"x\", \"parse_special\": 1}\n",
        "64", NULL);
    expect_ids(field(all, 0, "prompt_token_ids"), "[0,906,1405]");
    expect_ids(field(all, 0, "token_ids"), "[260,575]");
    expect_ids(field(all, 1, "prompt_token_ids"), "[906,0]");
    expect_ids(field(all, 1, "token_ids"), "[]");
    assert_string_equal(json_string_value(field(all, 2, "prompt")),
                        "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
    field(all, 3, "error");
    field(all, 4, "error");
    field(all, 5, "error");
    json_decref(all);
}

/* A prompt that is only encoded may be of any length, and nothing is computed for it. */
static void a_long_text_is_encoded(void **state) {
    (void)state;
    char *requests = calloc(1, 20000), *err;
    strcat(requests, "{\"max_tokens\": 0, \"return_token_ids\": true, \"prompt\": \"");
    for (int i = 0; i < 1000; i++) strcat(requests, "the dog ");
    strcat(requests, "\"}\n");
    json_t *all = answers(requests, "64", &err);
    assert_true(json_array_size(field(all, 0, "prompt_token_ids")) >= 2000);
    assert_non_null(strstr(err, " 0 passes"));
    json_decref(all);
    free(err);
    free(requests);
}

/* Tokenizers without a limit write it as a number of 100 bits. */
static void whole_numbers_of_any_length_are_read(void **state) {
    (void)state;
    static const char text[] = "{\"model_max_length\": 1000000000000000019884624838656, \"a\": "
                               "-99999999999999999999, \"b\": [1234567890123456789], \"c\": "
                               "\"11111111111111111111111\", \"d\": 0.12345678901234567890123, "
                               "\"e\": NaN}";
    json_t *json;
    Error error;
    assert_int_equal(json_parse(&json, "x", text, strlen(text), &error), STATUS_OK);
    assert_true(json_number(json, "model_max_length", 0) > 0.999e30);
    assert_true(json_number(json, "model_max_length", 0) < 1.001e30);
    assert_true(json_number(json, "a", 0) < -0.999e20);
    assert_string_equal(json_text(json, "c"), "11111111111111111111111");
    assert_true(json_number(json, "d", 0) > 0.12 && json_number(json, "d", 0) < 0.13);
    json_decref(json);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens_before_the_first_are_not_scored),
        cmocka_unit_test(a_prompt_that_is_scored_may_have_one_token_more_than_the_context),
        cmocka_unit_test(scored_prompts_share_their_context),
        cmocka_unit_test(ids_are_given_back),
        cmocka_unit_test(a_long_text_is_encoded),
        cmocka_unit_test(whole_numbers_of_any_length_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
