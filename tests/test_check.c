/* --check: recorded answers are told from others, at the right place. `make soak` tries more. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <unistd.h>

#include "tests/check_cases.h"
#include "tests/fixture.h"
#include "tests/process.h"
#include "tests/tier.h"

static const char MODEL[] = "models/stories.bin";

#define MORE(...) ((const char *const[]){__VA_ARGS__, NULL})

static void results_that_the_model_gives_are_the_same(void **state) {
    const CheckCases *c = *state;
    check_cases_same(c, MODEL, NULL);
    check_cases_same(c, MODEL, MORE("-j", "1", "--max-concurrent", "1"));
    check_cases_same(c, MODEL, MORE("--chunk", "5", "-j", "2"));
}

/* The passes of a batch, as --stats has them. */
static size_t passes_of(const Process *p) {
    const char *at = strstr(p->err, "at most, ");
    assert_non_null(at);
    return strtoul(at + strlen("at most, "), NULL, 10);
}

static void a_check_takes_few_passes(void **state) {
    const CheckCases *c = *state;
    Process made = RUN("run", MODEL, "--batch", c->requests, "--max-concurrent", "4", "--stats"),
            checked = RUN("run", MODEL, "--batch", c->requests, "--check", c->results,
                          "--max-concurrent", "4", "--stats"),
            others = RUN("run", MODEL, "--batch", c->requests, "--check", c->results,
                         "--max-concurrent", "4", "--stats", "-s", "5");
    assert_true(6 * passes_of(&checked) < passes_of(&made));
    assert_true(passes_of(&others) < passes_of(&made));
    process_free(&made);
    process_free(&checked);
    process_free(&others);
}

static void drafts_change_no_result(void **state) {
    const CheckCases *c = *state;
    check_cases_repeat(c, MODEL, MORE("--lookup", "7", "--max-concurrent", "1"));
    check_cases_repeat(c, MODEL,
                       MORE("--lookup", "3", "--draft", "lookup,model", "--draft-model",
                            "models/sinusoidal.bin", "--max-concurrent", "3"));
}

static void a_changed_byte_is_named(void **state) {
    const CheckCases *c = *state;
    assert_true(check_cases_bytes(c, MODEL, 1) > c->n - 4);
}

static void other_options_are_named_where_they_matter(void **state) {
    const CheckCases *c = *state;
    assert_true(check_cases_options(c, MODEL, MORE("-s", "5")) > c->n / 2);
    assert_true(check_cases_options(c, MODEL, MORE("-t", "0.9")) > c->n / 4);
    assert_int_equal(check_cases_options(c, MODEL, MORE("-s", "0")), 0);
}

/* ---- Requests and records that do not fit together --------------------------------------------
 */

/* Checks results against requests, both given as texts, and expects this output. */
static void expect(const char *requests, const char *results, int status,
                   const char *const *parts) {
    char *directory = fixture_directory(), *asked = fixture_path(directory, "requests.jsonl"),
         *recorded = fixture_path(directory, "results.jsonl");
    file_write(asked, requests, strlen(requests));
    file_write(recorded, results, strlen(results));
    Process p = RUN("run", MODEL, "--batch", asked, "--check", recorded, "-t", "0", "-n", "6",
                    "--pooling", "mean");
    assert_int_equal(p.status, status);
    for (; *parts; parts++)
        if (!strstr(p.out, *parts) && !strstr(p.err, *parts))
            fail_msg("no %s in:\n%s%s", *parts, p.out, p.err);
    process_free(&p);
    free(asked);
    free(recorded);
    fixture_remove_directory(directory);
}

/* Its text is compared, and what it leaves out is named. */
static void a_record_may_be_its_text_alone(void **state) {
    (void)state;
    char *directory = fixture_directory(), *path = fixture_path(directory, "requests.jsonl");
    const char request[] = "{\"prompt\": \"The dog\"}\n";
    file_write(path, request, strlen(request));
    Process p = RUN("run", MODEL, "--batch", path, "-t", "0", "-n", "6");
    char *text = strstr(p.out, "\"text\": \""), *end = strstr(text, "\", \"finish_reason");
    char record[256];
    snprintf(record, sizeof record, "{%.*s\"}\n", (int)(end - text), text);
    expect(request, record, 3,
           MORE("\"same\": null, \"not_checked\": [\"line\", \"line_hash\", \"finish_reason\"",
                "1 result: 0 same, 0 different, 1 not checked", "1 result is not the same"));
    (*strchr(record + 10, ' '))++; /* a byte of the text */
    expect(request, record, 3, MORE("\"same\": false, \"field\": \"text\""));
    process_free(&p);
    free(path);
    fixture_remove_directory(directory);
}

/* A program that has read and written a record may have made 3 of 3.0, or 3.0 of 3. */
static void numbers_are_compared_as_doubles(void **state) {
    (void)state;
    static const struct {
        const char *behind; /* the number */
        int status;
    } cases[] = {{".0", 0}, {"e0", 0}, {".0000000001", 3}, {"0", 3}};
    static const char request[] = "{\"prompt\": \"The dog\"}\n", key[] = "\"prompt_tokens\": ";
    Process p = process_run((const char *const[]){"run", MODEL, "--batch", "-", "-t", "0", "-n",
                                                  "6", "--pooling", "mean", NULL},
                            request, strlen(request));
    char *number = strstr(p.out, key) + strlen(key), *rest = number + strcspn(number, ",}");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char record[1024];
        snprintf(record, sizeof record, "%.*s%s%s", (int)(rest - p.out), p.out, cases[i].behind,
                 rest);
        expect(request, record, cases[i].status, MORE("1 result: "));
    }
    process_free(&p);
}

static void what_is_missing_is_said(void **state) {
    (void)state;
    expect("", "", 1, MORE("0 results: ", "nothing was checked"));
    expect("{\"id\": 1, \"prompt\": \"a\"}\n", "", 3, MORE("\"error\": \"no result is recorded\""));
    expect("", "{\"id\": 1, \"text\": \"a\"}\n", 3,
           MORE("{\"id\": 1, \"same\": false, \"error\": \"no request asks for this result\"}"));
    expect("", "{\"id\": 1, \"text\": \"a\"}\n\n{\"id\": 1, \"text\": \"b\"}\n", 1,
           MORE("lines 1 and 3 are results of the same request"));
    expect("{\"id\": 1, \"prompt\": \"a\"}\n", "{\"id\": 1, \"text\": \n", 1,
           MORE("line 1: not a result"));
    expect("{\"id\": 1, \"prompt\": \"a\"}\n", "[]\n", 1, MORE("not a JSON object"));
    expect("{\"id\": 1, \"prompt\": \"a\"}\n", "{\"id\": 1, \"text\": 7, \"note\": \"x\"}\n", 3,
           MORE("\"field\": \"text\"", "\"expected\": 7"));
    expect("{\"id\": 1, \"prompt\": \"a\"}\n", "{\"id\": 1, \"note\": \"x\"}\n", 3,
           MORE("\"field\": \"note\"", "\"got\": null"));
    expect("{\"id\": 1, \"prompt\": \"a\"}\n", "{\"id\": 1, \"choices\": []}\n", 3,
           MORE("\"field\": \"choices\""));
    expect("{\"id\": 1, \"prompt\": \"a\", \"n\": 2}\n", "{\"id\": 1, \"choices\": [7]}\n", 3,
           MORE("\"field\": \"choices[0]\""));
}

static void a_record_without_its_answer_is_not_the_same(void **state) {
    static const char *const requests[] = {
        "\"prompt\": \"a\"", "\"prompt\": \"a\", \"n\": 2",
        "\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}]", "\"input\": \"a\"",
        "\"prompt\": 7"};
    static const char *const lacks[] = {"\"text\"", "\"choices\"", "\"text\"", "\"embedding\"",
                                        "\"error\""};
    (void)state;
    for (size_t i = 0; i < sizeof requests / sizeof *requests; i++) {
        char request[200];
        snprintf(request, sizeof request, "{\"id\": 1, %s}\n", requests[i]);
        expect(request, "{\"id\": 1}\n", 3,
               MORE("{\"id\": 1, \"same\": null, \"not_checked\": [", lacks[i]));
    }
    expect("{\"id\": 1, \"prompt\": \"a\", \"n\": 2}\n", "{\"id\": 1, \"choices\": [{}, {}]}\n", 3,
           MORE("\"same\": null", "\"choices[0].text\"", "\"choices[1].finish_reason\""));
    static const char body[] = "\"url\": \"/v1/chat/completions\", \"body\": {\"messages\": "
                               "[{\"role\": \"user\", \"content\": \"Hi\"}]}}\n";
    char request[300];
    snprintf(request, sizeof request, "{\"custom_id\": \"x\", \"method\": \"POST\", %s", body);
    expect(request, "{\"id\": \"batch_req_1\", \"custom_id\": \"x\"}\n", 3,
           MORE("\"same\": null, \"not_checked\": [\"response\", \"error\"], \"run\": [\"id\"]"));
    expect(request,
           "{\"custom_id\": \"x\", \"error\": null, \"response\": {\"status_code\": 200, \"body\": "
           "{\"choices\": [{\"index\": 0, \"message\": {\"role\": \"assistant\"}}]}}}\n",
           3, MORE("\"same\": null", "\"response.body.choices[0].message.content\""));
}

/* What a batch gives for `requests`; freed by the caller. */
static char *answered(const char *requests) {
    Process p = process_run((const char *const[]){"run", MODEL, "--batch", "-", "-t", "0", "-n",
                                                  "6", "--pooling", "mean", NULL},
                            requests, strlen(requests));
    assert_non_null(strstr(p.out, "\n"));
    char *text = strdup(p.out);
    process_free(&p);
    return text;
}

/* Replaces the last place of `from` and expects that the record is told from the model's. */
static void expect_forged(const char *requests, const char *results, const char *from,
                          const char *to, int status, const char *wanted) {
    const char *at = NULL;
    for (const char *next = results; (next = strstr(next, from)); next++) at = next;
    assert_non_null(at);
    char *forged;
    assert_true(asprintf(&forged, "%.*s%s%s", (int)(at - results), results, to, at + strlen(from)) >
                0);
    expect(requests, forged, status, MORE(wanted));
    free(forged);
}

static void ids_inside_of_a_result_are_compared(void **state) {
    static const char asked[] = "{\"id\": 1, \"prompt\": \"a\", \"logprobs\": 2}\n",
                      lines[] = "{\"prompt\": \"a\"}\n";
    (void)state;
    char *results = answered(asked), *numbered = answered(lines);
    expect(asked, results, 0, MORE("{\"id\": 1, \"same\": true}"));
    expect_forged(asked, results, "{\"id\": ", "{\"id\": 1", 3,
                  "\"logprobs[5].top_logprobs[1].id\"");
    expect_forged(asked, results, "\"logprob\": -", "\"logprob\": ", 3, ".logprob\"");
    expect_forged(asked, results, "\"text\": ", "\"text\": \"\", \"text\": ", 1, "duplicate");
    expect_forged(asked, results, "\"system_fingerprint\": \"fp_", "\"system_fingerprint\": \"fp_0",
                  0, "\"same\": true, \"run\": [\"system_fingerprint\"]}");
    expect_forged(asked, results, "\"system_fingerprint\": \"fp_", "\"made\": 1, \"model\": \"fp_",
                  3, "\"field\": \"made\"");
    expect(lines, numbered, 0, MORE("\"same\": true"));
    char hash[40];
    snprintf(hash, sizeof hash, "%.30s", strstr(numbered, "\"line_hash\""));
    assert_true(strlen(hash) == 30 && hash[29] != '\0');
    expect_forged(lines, numbered, hash, "\"line_hash\": \"0000000000000000", 3,
                  "\"error\": \"no result is recorded\"");
    free(results);
    free(numbered);
}

/* --quiet prints what is not the same; stderr has the sum. */
static void a_sum_is_printed(void **state) {
    const CheckCases *c = *state;
    char sum[80];
    snprintf(sum, sizeof sum, "%zu results: %zu same, 0 different, 0 not checked\n", c->n, c->n);
    Process p = RUN("run", MODEL, "--batch", c->requests, "--check", c->results, "--quiet");
    assert_int_equal(p.status, 0);
    assert_string_equal(p.out, "");
    assert_non_null(strstr(p.err, sum));
    process_free(&p);
    p = RUN("run", MODEL, "-i", "a", "--quiet");
    assert_int_equal(p.status, 2);
    process_free(&p);
}

/* ---- One text ----------------------------------------------------------------------------------
 */

#define GENERATE(...)                                                                              \
    RUN("run", MODEL, "-i", "The cat", "-s", "7", "-n", "80", "-j", "1", __VA_ARGS__)

static void one_text_is_checked(void **state) {
    char *directory = fixture_directory(), *path = fixture_path(directory, "text");
    (void)state;
    for (int echo = 0; echo < 2; echo++) {
        Process p = echo ? GENERATE("--echo") : GENERATE("--stats");
        file_write(path, p.out, p.out_length);
        Process same = echo ? GENERATE("--check", path, "--echo", "--stats")
                            : GENERATE("--check", path, "--stats");
        assert_int_equal(same.status, 0);
        assert_string_equal(same.out, "{\"same\": true}\n");
        assert_non_null(strstr(same.err, "check:   80 tokens in "));
        process_free(&same);
        /* A byte in its middle, then its end. */
        char expected[64];
        size_t at = p.out_length / 2;
        while (p.out[at] < 'a' || p.out[at] >= 'z') at++;
        p.out[at]++;
        file_write(path, p.out, p.out_length);
        Process other = echo ? GENERATE("--check", path, "--echo") : GENERATE("--check", path);
        snprintf(expected, sizeof expected, "\"byte\": %zu,", at);
        assert_int_equal(other.status, 3);
        assert_non_null(strstr(other.out, expected));
        assert_non_null(strstr(other.out, "\"gap\": "));
        process_free(&other);
        p.out[at]--;
        file_write(path, p.out, p.out_length - 5);
        Process shorter = echo ? GENERATE("--check", path, "--echo") : GENERATE("--check", path);
        assert_int_equal(shorter.status, 3);
        process_free(&shorter);
        process_free(&p);
    }
    free(path);
    fixture_remove_directory(directory);
}

static void a_text_that_differs_can_be_accepted(void **state) {
    char *directory = fixture_directory(), *path = fixture_path(directory, "text");
    (void)state;
    file_write(path, "something else\n", 15);
    Process p = GENERATE("--check", path, "-o", path), plain = GENERATE("--stats");
    size_t length;
    char *text = file_read(path, &length);
    assert_int_equal(p.status, 3);
    assert_string_equal(text, plain.out);
    Process again = GENERATE("--check", path);
    assert_int_equal(again.status, 0);
    process_free(&p);
    process_free(&plain);
    process_free(&again);
    free(text);
    free(path);
    fixture_remove_directory(directory);
}

static void what_cannot_be_checked_is_refused(void **state) {
    (void)state;
    Process p = RUN("run", MODEL, "-i", "a", "--check", "README.md");
    PROCESS_SAYS(p, 2, "-s N");
    p = RUN("run", MODEL, "-m", "chat", "--check", "README.md");
    assert_int_equal(p.status, 2);
    process_free(&p);
    p = RUN("run", MODEL, "--check", "absent", "-t", "0");
    PROCESS_SAYS(p, 1, "absent: No such file");
}

/* ---- Other kinds of records --------------------------------------------------------------------
 */

static void a_file_says_what_kind_of_record_it_is(void **state) {
    const CheckCases *c = *state;
    char *directory = fixture_directory(), *path = fixture_path(directory, "record");
    Process p = RUN("run", MODEL, "-i", "The cat", "-n", "5", "-s", "7", "--receipt", path);
    process_free(&p);
    p = RUN("run", MODEL, "--check", path);
    assert_int_equal(p.status, 0);
    assert_non_null(strstr(p.out, "{\"part\": \"item\", \"number\": 1, \"same\": true}"));
    assert_non_null(strstr(p.err, "12 parts: 12 same, 0 different, 0 not checked"));
    process_free(&p);
    p = RUN("run", MODEL, "--check", path, "-i", "The dog", "--quiet");
    assert_int_equal(p.status, 3);
    assert_non_null(strstr(p.out, "item.prompt.text"));
    assert_null(strstr(p.out, "\"same\": true"));
    process_free(&p);
    p = RUN("run", MODEL, "--check", c->results);
    PROCESS_SAYS(p, 2, "results, which need their requests: --batch FILE");
    free(path);
    fixture_remove_directory(directory);
}

/* Replaces the first place of `from` in the file. */
static void replace(const char *path, const char *from, const char *to) {
    size_t n;
    char *text = file_read(path, &n), *at = strstr(text, from), *whole;
    assert_non_null(at);
    assert_true(asprintf(&whole, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from)) > 0);
    file_write(path, whole, strlen(whole));
    free(text);
    free(whole);
}

static void expect_conversation(const char *path, int status, const char *wanted) {
    Process p = RUN("run", MODEL, "--check", path);
    if (p.status != status || !(strstr(p.out, wanted) || strstr(p.err, wanted)))
        fail_msg("status %d, no %s in:\n%s%s", p.status, wanted, p.out, p.err);
    process_free(&p);
}

/* The file does not hold the shape, which must be given again. */
static void a_conversation_of_a_shape_asks_for_the_shape(void **state) {
    char *directory = fixture_directory(), *path = fixture_path(directory, "talk.jsonl");
    (void)state;
    Process p = RUN("run", MODEL, "-m", "chat", "-i", "Red?", "--choice", "red", "--choice", "blue",
                    "--session", path);
    assert_int_equal(p.status, 0);
    process_free(&p);
    expect_conversation(path, 3,
                        "talk.jsonl: 1 answer was made under other settings "
                        "(made_with.under): give what the chat was given, a shape");
    p = RUN("run", MODEL, "--check", path, "--choice", "red", "--choice", "blue");
    assert_int_equal(p.status, 0);
    assert_null(strstr(p.err, "other settings"));
    process_free(&p);
    unlink(path);
    free(path);
    fixture_remove_directory(directory);
}

static void a_conversation_is_checked(void **state) {
    static const char lines[] = "Hello\nTell me a story\n/retry\nBye\n";
    char *directory = fixture_directory(), *path = fixture_path(directory, "talk.jsonl");
    (void)state;
    Process p = process_run((const char *const[]){"run", MODEL, "-m", "chat", "-n", "6", "-y",
                                                  "Be kind", "--session", path, NULL},
                            lines, strlen(lines));
    assert_int_equal(p.status, 0);
    process_free(&p);
    size_t n;
    char *text = file_read(path, &n);
    expect_conversation(path, 0, "{\"part\": \"message\", \"number\": 7, \"same\": true}");
    static const struct {
        const char *from, *to;
        int status;
        const char *wanted;
    } changes[] = {
        {"Tell me", "Sell me", 3, "{\"part\": \"message.made_with.seal\", \"number\": 5"},
        {"\"started\":1", "\"started\":2", 3, "message.made_with.seal\", \"number\": 3"},
        {"\"model\":\"", "\"model\":\"x", 0, "\"run\": [\"conversation.model\"]"},
        {"\"fingerprint\":\"", "\"fingerprint\":\"0", 3, "conversation.fingerprint"},
        {"\"seal\":", "\"sael\":", 3, "message.made_with.sael"},
        {",\"finish\":\"length\"", "", 3, "\"not_checked\": [\"message.made_with.finish\"]"},
        {"\"finish\":\"length\"", "\"finish\":\"interrupted\"", 3,
         "{\"part\": \"message.made_with.finish\", \"number\": "},
        {"\"role\":\"user\"", "\"role\":\"user\",\"role\":\"user\"", 1,
         "line 3: not a result: dup"},
        {"{\"role\":\"user\",\"content\":\"Bye\"}\n", "", 3, "message"},
    };
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        file_write(path, text, n);
        replace(path, changes[i].from, changes[i].to);
        expect_conversation(path, changes[i].status, changes[i].wanted);
    }
    /* A message that nobody has answered; a prompt that the file does not have. */
    file_write(path, text, n);
    replace(path, "{\"role\":\"user\",\"content\":\"Bye\"}\n",
            "{\"role\":\"user\",\"content\":\"Bye\"}\n{\"role\":\"user\",\"content\":\"So\"}\n");
    expect_conversation(path, 3, "message");
    p = RUN("run", MODEL, "--check", path, "-i", "Hello");
    PROCESS_SAYS(p, 2, "a conversation, which says itself what was asked");
    free(text);
    free(path);
    fixture_remove_directory(directory);
}

static int open_cases(void **state) {
    static CheckCases cases;
    cases = check_cases_open(MODEL, tier_count(12, 24, 24));
    *state = &cases;
    return 0;
}

static int close_cases(void **state) {
    if (*state) check_cases_close(*state);
    return 0;
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_that_the_model_gives_are_the_same),
        cmocka_unit_test(a_check_takes_few_passes),
        cmocka_unit_test(drafts_change_no_result),
        cmocka_unit_test(a_changed_byte_is_named),
        cmocka_unit_test(other_options_are_named_where_they_matter),
        cmocka_unit_test(a_record_may_be_its_text_alone),
        cmocka_unit_test(numbers_are_compared_as_doubles),
        cmocka_unit_test(what_is_missing_is_said),
        cmocka_unit_test(a_record_without_its_answer_is_not_the_same),
        cmocka_unit_test(ids_inside_of_a_result_are_compared),
        cmocka_unit_test(a_sum_is_printed),
        cmocka_unit_test(one_text_is_checked),
        cmocka_unit_test(a_text_that_differs_can_be_accepted),
        cmocka_unit_test(what_cannot_be_checked_is_refused),
        cmocka_unit_test(a_file_says_what_kind_of_record_it_is),
        cmocka_unit_test(a_conversation_is_checked),
        cmocka_unit_test(a_conversation_of_a_shape_asks_for_the_shape),
    };
    return cmocka_run_group_tests_name("check", tests, open_cases, close_cases);
}
