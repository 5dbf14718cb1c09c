/* Scoring the endings of contexts: the fields of requests that lm-evaluation-harness needs, and
 * --eval-tasks. */
#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "modes/inspect/statistics.h"
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
    char ids[512] = "906", longer[640];
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

/* ---- --eval-tasks ---- */

static void shares_have_wilsons_interval(void **state) {
    (void)state;
    double low, high;
    statistics_wilson_interval(2, 3, &low, &high); /* scipy: binomtest(2, 3).proportion_ci */
    assert_true(fabs(low - 0.2076596008) < 1e-9 && fabs(high - 0.9385080553) < 1e-9);
    statistics_wilson_interval(0, 10, &low, &high);
    assert_true(low == 0.0 && fabs(high - 0.277533) < 1e-6);
    statistics_wilson_interval(10, 10, &low, &high);
    assert_true(high == 1.0 && fabs(low - 0.722467) < 1e-6);
}

static void mcnemars_test_is_exact(void **state) {
    (void)state;
    assert_true(statistics_mcnemar_p(0, 0) == 1.0);
    assert_true(statistics_mcnemar_p(7, 7) == 1.0);
    assert_true(fabs(statistics_mcnemar_p(8, 1) - 0.0390625) < 1e-12);
    assert_true(fabs(statistics_mcnemar_p(1, 8) - 0.0390625) < 1e-12);
    assert_true(fabs(statistics_mcnemar_p(20, 12) - 0.2153271497) < 1e-9);
    assert_true(statistics_mcnemar_p(3000, 1000) < 1e-200);
}

static const char TASKS[] =
    "{\"id\": 1, \"context\": \"Once upon a time there was a girl named\", \"choices\": [\" "
    "Lily\", "
    "\" a table\", \" ran far away\"], \"answer\": 0}\n"
    "\n"
    "{\"id\": 2, \"context\": \"Once upon a time there was a dog. It \", \"choices\": [\"ran\", "
    "\"of of\"], \"answer\": \"of of\"}\n"
    "{\"id\": 3, \"context\": \"\", \"choices\": [\"Once upon\", \"xyz\"], \"answer\": 0}\n"
    "{\"id\": 4, \"text\": \"Once upon a time there was a dog. The dog liked to play.\"}\n";

/* Runs --eval-tasks on these items; the lines of -o as an array. */
static json_t *evaluated(const char *tasks, const char *const *more, char **out) {
    const char *argv[24] = {"run", MODEL, "--eval-tasks"};
    char *directory = fixture_directory(), *path = fixture_path(directory, "tasks.jsonl"),
         *items = fixture_path(directory, "items.jsonl");
    size_t n = 3, length;
    file_write(path, tasks, strlen(tasks));
    argv[n++] = path;
    argv[n++] = "-o";
    argv[n++] = items;
    for (; *more; more++) argv[n++] = *more;
    Process p = process_run(argv, NULL, 0);
    if (p.status != 0) fail_msg("%s", p.err);
    char *text = file_read(items, &length);
    json_t *all = json_array();
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
        json_array_append_new(all, json_loads(line, 0, NULL));
    if (out) *out = strdup(p.out);
    free(text);
    process_free(&p);
    free(path);
    free(items);
    fixture_remove_directory(directory);
    return all;
}

#define WITH(...) ((const char *const[]){__VA_ARGS__, NULL})

static double first_logprob(const json_t *item, size_t i) {
    return json_real_value(json_array_get(json_object_get(item, "logprob"), i));
}

static void choices_get_the_scores_of_a_batch(void **state) {
    (void)state;
    char *out;
    json_t *items = evaluated(TASKS, WITH("-j", "2"), &out);
    json_t *all =
        answers("{\"prompt\": \"Once upon a time there was a girl named a table\", " SCORED "}\n"
                "{\"prompt\": \"Once upon a time there was a girl named\", \"max_tokens\": 0}\n",
                "64", NULL);
    const json_t *scores = field(all, 0, "prompt_logprobs"), *score;
    size_t i, from = (size_t)json_integer_value(field(all, 1, "prompt_tokens")) - 1;
    double sum = 0.0;
    json_array_foreach((json_t *)scores, i, score) {
        if (i >= from) sum += json_real_value(json_object_get(score, "logprob"));
    }
    assert_true(fabs(sum - first_logprob(json_array_get(items, 0), 1)) < 1e-5);
    assert_non_null(strstr(out, "questions           3"));
    assert_non_null(strstr(out, "accuracy            0.6667 [0.2077, 0.9385]"));
    assert_non_null(strstr(out, "documents           1"));
    json_decref(all);
    json_decref(items);
    free(out);
}

static void scores_do_not_depend_on_the_machine_or_the_order(void **state) {
    (void)state;
    char reversed[4096] = "", *out, *other;
    json_t *items = evaluated(TASKS, WITH("-j", "3"), &out);
    json_t *again = evaluated(TASKS, WITH("-j", "1", "--isa", "reference", "--chunk", "3"), &other);
    assert_true(json_equal(items, again));
    assert_string_equal(out, other);
    for (size_t end = strlen(TASKS); end > 0;) {
        size_t begin = end - 1;
        while (begin > 0 && TASKS[begin - 1] != '\n') begin--;
        memcpy(reversed + strlen(TASKS) - end, TASKS + begin, end - begin);
        end = begin;
    }
    json_t *backwards = evaluated(reversed, WITH("-j", "1"), NULL);
    for (size_t i = 0; i < 4; i++) {
        json_t *a = json_array_get(items, i), *b = json_array_get(backwards, 3 - i);
        assert_true(json_equal(json_object_get(a, "id"), json_object_get(b, "id")));
        assert_true(json_equal(json_object_get(a, "logprob"), json_object_get(b, "logprob")));
    }
    json_decref(items);
    json_decref(again);
    json_decref(backwards);
    free(out);
    free(other);
}

static void two_models_get_the_same_items(void **state) {
    (void)state;
    char *out;
    json_t *items = evaluated(TASKS, WITH("--against", "models/sinusoidal.bin"), &out);
    assert_non_null(strstr(out, "other accuracy"));
    assert_non_null(strstr(out, "McNemar"));
    assert_non_null(strstr(out, "other perplexity"));
    json_t *same = evaluated(TASKS, WITH("--against", MODEL), NULL), *item;
    size_t i;
    json_array_foreach(same, i, item) {
        assert_true(json_equal(json_object_get(item, "logprob"),
                               json_object_get(json_object_get(item, "other"), "logprob")));
        assert_true(json_equal(json_object_get(item, "logprob"),
                               json_object_get(json_array_get(items, i), "logprob")));
    }
    json_decref(items);
    json_decref(same);
    free(out);
}

static void a_document_is_scored_once_in_windows(void **state) {
    (void)state;
    char tasks[4096] = "{\"stride\": 5, \"text\": \"";
    for (int i = 0; i < 40; i++) strcat(tasks, "the dog ran ");
    strcat(tasks, "\"}\n");
    json_t *narrow = evaluated(tasks, WITH("-c", "16"), NULL),
           *wide = evaluated(tasks, WITH("-c", "512"), NULL);
    const json_t *tokens = field(narrow, 0, "tokens");
    assert_true(json_integer_value(tokens) >= 120);
    assert_true(json_equal(tokens, field(wide, 0, "tokens")));
    json_decref(narrow);
    json_decref(wide);
}

static void wrong_items_are_named_by_their_line(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {"", "no items"},
        {"{}\n", "line 1: there is no 'context'"},
        {"\n[1]\n", "line 2: not a JSON object"},
        {"{\"context\": \"a\", \"choices\": [\"b\"], \"answer\": 0}\n", "2 to 256 texts"},
        {"{\"context\": \"a\", \"choices\": [\"b\", \"\"], \"answer\": 0}\n", "element 2"},
        {"{\"context\": \"a\", \"choices\": [\"b\", \"c\"], \"answer\": 2}\n", "not the index"},
        {"{\"context\": \"a\", \"choices\": [\"b\", \"c\"], \"answer\": \"d\"}\n", "none of"},
        {"{\"context\": \"a\", \"choices\": [\"b\", \"c\"], \"gold\": 0}\n", "the key 'gold'"},
        {"{\"text\": \"a\", \"stride\": 0}\n", "'stride'"},
        {"{\"text\": \"\"}\n", "not empty"},
        {"{\"context\": \n", "line 1: not JSON"}};
    char *directory = fixture_directory(), *path = fixture_path(directory, "tasks.jsonl");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        file_write(path, cases[i][0], strlen(cases[i][0]));
        Process p = RUN("run", MODEL, "--eval-tasks", path);
        assert_int_equal(p.status, 1);
        if (!strstr(p.err, cases[i][1])) fail_msg("no %s in %s", cases[i][1], p.err);
        process_free(&p);
    }
    Process p = RUN("run", MODEL, "--eval-tasks", path, "-i", "x");
    assert_int_equal(p.status, 2);
    process_free(&p);
    free(path);
    fixture_remove_directory(directory);
}

/* A model whose logits overflow has no choice, not the first. */
/* The context is tokenized with each choice: an item says how much that is before it is begun. */
static void a_long_item_is_bounded(void **state) {
    enum { BYTES = 3 << 20 };
    (void)state;
    char *text = malloc(BYTES + 4096), *path = build_path("tests/long-item.jsonl");
    size_t n = (size_t)sprintf(text, "{\"answer\":0,\"context\":\"");
    for (; n < BYTES; n += 2) memcpy(text + n, "a ", 2);
    n += (size_t)sprintf(text + n, "\",\"choices\":[\"x\"");
    for (int i = 0; i < 99; i++) n += (size_t)sprintf(text + n, ",\"%d\"", i);
    n += (size_t)sprintf(text + n, "]}\n");
    file_write(path, text, n);
    Process p = RUN("run", MODEL, "--eval-tasks", path);
    assert_int_equal(p.status, 1);
    if (!strstr(p.err, "line 1: 100 choices behind a context of 3145")) fail_msg("%s", p.err);
    process_free(&p);
    unlink(path);
    free(path);
    free(text);
}

static void an_item_without_finite_scores_is_named(void **state) {
    (void)state;
    static const char items[] =
        "\n{\"context\": \"a\", \"choices\": [\" b\", \" c\"], \"answer\": 0}\n";
    Process p = process_run((const char *const[]){"run", MODEL, "--override", "logit_scale=1e38",
                                                  "--eval-tasks", "-", NULL},
                            items, sizeof items - 1);
    assert_int_equal(p.status, 1);
    if (!strstr(p.err, "-: line 2: models/stories.bin: a logit is not a finite number"))
        fail_msg("%s", p.err);
    process_free(&p);
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens_before_the_first_are_not_scored),
        cmocka_unit_test(a_prompt_that_is_scored_may_have_one_token_more_than_the_context),
        cmocka_unit_test(scored_prompts_share_their_context),
        cmocka_unit_test(ids_are_given_back),
        cmocka_unit_test(a_long_text_is_encoded),
        cmocka_unit_test(shares_have_wilsons_interval),
        cmocka_unit_test(mcnemars_test_is_exact),
        cmocka_unit_test(choices_get_the_scores_of_a_batch),
        cmocka_unit_test(scores_do_not_depend_on_the_machine_or_the_order),
        cmocka_unit_test(two_models_get_the_same_items),
        cmocka_unit_test(a_document_is_scored_once_in_windows),
        cmocka_unit_test(wrong_items_are_named_by_their_line),
        cmocka_unit_test(a_long_item_is_bounded),
        cmocka_unit_test(an_item_without_finite_scores_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
