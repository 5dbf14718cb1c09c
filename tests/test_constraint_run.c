/* Shapes as a user of `run` sees them: the text has its shape on any setting, and the same bytes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "constraint/shape_source.h"
#include "process.h"
#include "tier.h"

static const char model[] = "models/stories.bin";
static const char person[] =
    "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\",\"maxLength\":12},\"age\":"
    "{\"type\":\"integer\",\"minimum\":1,\"maximum\":99},\"pets\":{\"type\":\"array\",\"items\":{"
    "\"enum\":[\"cat\",\"dog\"]},\"minItems\":1,\"maxItems\":3}},\"required\":[\"name\",\"age\","
    "\"pets\"],\"additionalProperties\":false}";

static bool has_shape(const char *schema, const char *text, size_t length) {
    const ShapeSource source = {
        .kind = SHAPE_JSON_SCHEMA, .text = schema, .length = strlen(schema)};
    Acceptor *acceptor;
    Error error;
    assert_int_equal(shape_source_compile(&source, &acceptor, &error), STATUS_OK);
    AcceptorState state = acceptor_start(acceptor);
    for (size_t i = 0; i < length; i++) state = acceptor_step(acceptor, state, (uint8_t)text[i]);
    bool accepts = state != ACCEPTOR_DEAD && acceptor_accepts(acceptor, state);
    acceptor_free(acceptor);
    return accepts;
}

/* The text, without the line end that the program adds, has the shape. */
static void assert_person(const Process *p) {
    if (p->status != 0) print_message("%s", p->err);
    assert_int_equal(p->status, 0);
    assert_true(p->out_length > 1 && p->out[p->out_length - 1] == '\n');
    if (!has_shape(person, p->out, p->out_length - 1)) fail_msg("%s", p->out);
}

static void a_text_has_its_shape_and_the_same_bytes_on_any_setting(void **state) {
    (void)state;
    for (int seed = 1; seed <= 5; seed++) {
        char s[8];
        snprintf(s, sizeof s, "%d", seed);
        Process first = RUN("run", model, "-i", "Lily", "-n", "0", "-s", s, "--json-schema", person,
                            "--draft", "none", "-j", "1");
        Process second = RUN("run", model, "-i", "Lily", "-n", "0", "-s", s, "--json-schema",
                             person, "--lookup", "5", "-j", "2", "--chunk", "1", "--stats");
        Process third = RUN("run", model, "-i", "Lily", "-n", "0", "-s", s, "--json-schema", person,
                            "--draft", "shape", "--stats");
        assert_person(&first);
        assert_string_equal(first.out, second.out);
        assert_string_equal(first.out, third.out);
        if (!strstr(third.err, "drafts:  shape: ")) fail_msg("%s", third.err);
        process_free(&third);
        process_free(&first);
        process_free(&second);
    }
}

/* A small model loves blanks: with up to 40 between two tokens, 4 of these 40 texts did not end
 * within 100 tokens. */
static void no_text_gets_lost_in_white_space(void **state) {
    (void)state;
    static const char likes[] =
        "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\",\"maxLength\":12},"
        "\"age\":{\"type\":\"integer\",\"minimum\":0,\"maximum\":99},\"likes\":{\"type\":\"array\","
        "\"items\":{\"enum\":[\"cats\",\"dogs\",\"birds\"]},\"maxItems\":3}},\"required\":["
        "\"name\","
        "\"age\",\"likes\"],\"additionalProperties\":false}";
    for (int seed = 1, last = (int)tier_count(6, 40, 40); seed <= last; seed++) {
        char s[12];
        snprintf(s, sizeof s, "%d", seed);
        Process p = RUN("run", model, "-i", "Once upon a time", "-n", "100", "-t", "0.8", "-s", s,
                        "--json-schema", likes);
        if (p.status != 0 || !has_shape(likes, p.out, p.out_length - 1))
            fail_msg("seed %d: %d %s", seed, p.status, p.out);
        process_free(&p);
    }
}

static void a_text_that_is_too_long_is_closed(void **state) {
    (void)state;
    for (int n = 1; n <= 20; n++) {
        char tokens[8];
        snprintf(tokens, sizeof tokens, "%d", n);
        Process p = RUN("run", model, "-i", "Lily", "-n", tokens, "-s", tokens, "--json-schema",
                        person, "--on-length", "close");
        assert_person(&p);
        process_free(&p);
    }
}

static void a_text_that_is_cut_says_so(void **state) {
    (void)state;
    Process p = RUN("run", model, "-i", "Lily", "-n", "3", "-s", "1", "--json-schema", person);
    assert_int_equal(p.status, 3);
    if (!strstr(p.err, "cut after 3 tokens")) fail_msg("%s", p.err);
    assert_true(p.out_length > 1);
    process_free(&p);
    static const char *const shapes[] = {"[A-Z][a-z]{90}", "[A-Z]?[a-z .]*"};
    for (size_t i = 0; i < 2; i++) { /* the second may end anywhere */
        p = RUN("run", "models/stories.bin", "-m", "chat", "-i", "Hi", "-n", "3", "-s", "1",
                "--regex", shapes[i]);
        assert_int_equal(p.status, i == 0 ? 3 : 0);
        assert_int_equal(strstr(p.err, "cut after 3 tokens") != NULL, i == 0);
        assert_int_equal(strstr(p.err, "(1 answer was cut") != NULL, i == 1); /* said once */
        process_free(&p);
    }
    p = RUN("run", model, "-i", "Lily", "-n", "3", "-s", "1", "--regex", "[a-z .]*");
    assert_int_equal(p.status, 0); /* the text has its shape wherever it is cut */
    assert_string_equal(p.err, "");
    process_free(&p);
}

static void a_batch_gives_what_each_text_gives_alone(void **state) {
    static const char lines[] =
        "{\"id\":1,\"prompt\":\"Lily\",\"max_tokens\":40,\"regex\":\"[A-Z][a-z]{2,9} ran\\\\.\"}\n"
        "{\"id\":2,\"prompt\":\"Lily\",\"max_tokens\":40,\"structured_outputs\":{\"choice\":["
        "\"yes\",\"no\"]}}\n"
        "{\"id\":3,\"prompt\":\"Lily\",\"max_tokens\":40}\n"
        "{\"id\":4,\"prompt\":\"Lily\",\"max_tokens\":3,\"regex\":\"(\"}\n";
    (void)state;
    Process all = process_run((const char *const[]){"run", model, "--batch", "-", "-s", "7",
                                                    "--grammar", "root ::= \"a\"+ \".\"", NULL},
                              lines, strlen(lines));
    assert_int_equal(all.status, 3);
    assert_non_null(strstr(all.out, "( has no )"));
    const char *const options[][2] = {{"--regex", "[A-Z][a-z]{2,9} ran\\."},
                                      {"--choice", "yes"},
                                      {"--grammar", "root ::= \"a\"+ \".\""}};
    for (int i = 0; i < 3; i++) {
        char expected[256];
        bool choice = i == 1;
        Process one = RUN("run", model, "-i", "Lily", "-n", "40", "-s", "7", options[i][0],
                          options[i][1], choice ? "--choice" : "--top-k", choice ? "no" : "0");
        assert_int_equal(one.status, i == 2 ? 3 : 0); /* the grammar's text is cut */
        snprintf(expected, sizeof expected, "{\"id\": %d, \"text\": \"%.*s\"", i + 1,
                 (int)one.out_length - 1, one.out);
        if (!strstr(all.out, expected)) fail_msg("%s\n%s", expected, all.out);
        process_free(&one);
    }
    process_free(&all);
}

/* A request's schema means the digits that it says, as one of --json-schema does (docs/shapes.md),
 * and so does a tool's. */
static void a_request_keeps_the_digits_of_its_schema(void **state) {
    static const char lines[] =
        "{\"id\":1,\"prompt\":\"Lily\",\"temperature\":0.70000000000000000001,\"json_schema\":"
        "{\"enum\":[0.1,[0.30000000000000004],1e22]}}\n"
        "{\"id\":2,\"prompt\":\"Lily\",\"json_schema\":{\"const\":0.10000000000000001}}\n"
        "{\"id\":3,\"prompt\":\"Lily\",\"response_format\":{\"type\":\"json_schema\","
        "\"json_schema\":{\"schema\":{\"const\":18446744073709551617}}}}\n"
        "{\"id\":4,\"prompt\":\"Lily\",\"json_schema\":\"{\\\"const\\\":0.123456789012345678901}\"}"
        "\n"
        "{\"id\":5,\"prompt\":\"Lily\",\"structured_outputs\":{\"json\":{\"const\":"
        "-0.123456789012345678901}}}\n"
        "{\"id\":6,\"prompt\":\"Lily\",\"json_schema\":{\"maximum\":1e999}}\n";
    static const char *const texts[] = {"0.10000000000000001", "18446744073709551617",
                                        "0.123456789012345678901", "-0.123456789012345678901"};
    (void)state;
    Process p = process_run(
        (const char *const[]){"run", model, "--batch", "-", "--ordered", "-s", "7", NULL}, lines,
        strlen(lines));
    assert_int_equal(p.status, 3);
    bool right = strstr(p.out, "{\"id\": 1, \"text\": \"0.1\"") ||
                 strstr(p.out, "{\"id\": 1, \"text\": \"[0.30000000000000004]\"") ||
                 strstr(p.out, "{\"id\": 1, \"text\": \"10000000000000000000000");
    if (!right) fail_msg("%s", p.out);
    for (int i = 0; i < 4; i++) {
        char part[64];
        snprintf(part, sizeof part, "{\"id\": %d, \"text\": \"%s\"", i + 2, texts[i]);
        if (!strstr(p.out, part)) fail_msg("no %s: %s", part, p.out);
    }
    assert_non_null(strstr(p.out, "the number 1e999 has too many digits"));
    process_free(&p);
}

/* llama.cpp's server takes a schema beside "type": "json_object" (common/chat and its README),
 * where
 * {} means any object; and false is a schema that holds for nothing. */
static void a_request_says_its_schema_as_other_servers_have_it(void **state) {
    static const char lines[] =
        "{\"id\":1,\"prompt\":\"Lily\",\"response_format\":{\"type\":\"json_object\",\"schema\":"
        "{\"const\":{\"a\":7}}}}\n"
        "{\"id\":2,\"prompt\":\"Lily\",\"max_tokens\":1,\"response_format\":{\"type\":"
        "\"json_object\",\"schema\":{}}}\n"
        "{\"id\":3,\"prompt\":\"Lily\",\"response_format\":{\"type\":\"json_object\",\"schema\":3}}"
        "\n"
        "{\"id\":4,\"prompt\":\"Lily\",\"structured_outputs\":{\"json\":false}}\n"
        "{\"id\":5,\"prompt\":\"Lily\",\"structured_outputs\":{\"regex\":false}}\n"
        "{\"id\":6,\"prompt\":\"Lily\",\"structured_outputs\":{\"json_object\":false,"
        "\"disable_any_whitespace\":false,\"regex\":\"yes\"}}\n";
    static const char *const parts[] = {
        "\\\"a\\\": 7",           "{\"id\": 2, \"text\": \"{", "'schema' must be an object",
        "no text has this shape", "'regex' must be a text",    "{\"id\": 6, \"text\": \"yes\""};
    (void)state;
    Process p = process_run(
        (const char *const[]){"run", model, "--batch", "-", "--ordered", "-s", "7", NULL}, lines,
        strlen(lines));
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (!strstr(p.out, parts[i])) fail_msg("no %s: %s", parts[i], p.out);
    process_free(&p);
}

/* Answers the lines with the template in a file of its own. */
static Process answer_lines(const char *template, const char *lines, const char *option,
                            const char *value) {
    char *path = build_path("tests/shape-template");
    file_write(path, template, strlen(template));
    Process p = process_run((const char *const[]){"run", model, "--batch", "-", "--ordered",
                                                  "--chat-template", path, option, value, NULL},
                            lines, strlen(lines));
    unlink(path);
    free(path);
    return p;
}

static void expect_part(const Process *p, const char *part, bool is_there) {
    if ((strstr(p->out, part) != NULL) != is_there)
        fail_msg("%s '%s': %s%s", is_there ? "no" : "there is", part, p->out, p->err);
}

#define MESSAGES "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}],\"max_tokens\":40,"

static void a_shape_begins_behind_the_reasoning(void **state) {
    static const char opens[] =
        "{% for m in messages %}{{ m.content }}{% endfor %}{% if enable_thinking is false %}"
        "<think></think>{% else %}<think>{% endif %}\n";
    static const char line[] = MESSAGES "\"choice\":[\"yes\"],\"reasoning_budget\":4}\n";
    static const char none[] = MESSAGES "\"choice\":[\"yes\"],\"reasoning_budget\":0}\n";
    static const char off[] =
        MESSAGES "\"choice\":[\"yes\"],\"chat_template_kwargs\":{\"enable_thinking\":false}}\n";
    (void)state;
    Process p = answer_lines(opens, line, "-s", "1");
    expect_part(&p, "\"text\": \"yes\", \"reasoning_content\": \"", true);
    expect_part(&p, "\"reasoning_content\": \"\"", false);
    process_free(&p);
    p = answer_lines(opens, none, "-s", "1");
    expect_part(&p, "\"text\": \"yes\", \"reasoning_content\": \"\", ", true);
    process_free(&p);
    p = answer_lines(opens, off, "-s", "1");
    expect_part(&p, "\"text\": \"yes\", \"finish", true);
    process_free(&p);
    /* Without a limit the model thinks, and does not answer before the end of it. */
    p = answer_lines(opens, MESSAGES "\"choice\":[\"yes\"]}\n", "-s", "1");
    expect_part(&p, "\"text\": \"\", \"reasoning_content\": \"", true);
    process_free(&p);
    p = answer_lines(opens, MESSAGES "\"choice\":[\"yes\"]}\n", "--on-length", "close");
    expect_part(&p, "\"text\": \"yes\", \"reasoning_content\": \"", true);
    expect_part(&p, "\"finish_reason\": \"length\"", true);
    process_free(&p);
}

static void texts_are_tested_without_a_model(void **state) {
    static const char texts[] = "ab\nax\nacc\n";
    char *path = build_path("tests/shape-texts");
    (void)state;
    file_write(path, texts, strlen(texts));
    Process p = RUN("run", "--regex", "ab|ac*", "--shape-test", path);
    assert_int_equal(p.status, 1);
    assert_string_equal(p.out, "1: accepted\n"
                               "2: refused at byte 1 (x); what may stand there: b-c, or the end\n"
                               "3: accepted\n");
    process_free(&p);
    unlink(path);
    free(path);
}

static void assert_refused(Process p, int status, const char *message) {
    if (p.status != status || !strstr(p.err, message)) fail_msg("status %d: %s", p.status, p.err);
    assert_int_equal(p.out_length, 0);
    process_free(&p);
}

static void what_cannot_be_is_refused(void **state) {
    (void)state;
    assert_refused(RUN("run", model, "--json", "--regex", "a"), 2, "use one of them");
    assert_refused(RUN("run", model, "--on-length", "close"), 2, "needs a shape");
    assert_refused(RUN("run", "--shape-test", "x"), 2, "needs a shape");
    assert_refused(RUN("run", model, "--regex", "a\\b"), 1, "word boundaries");
    assert_refused(RUN("run", model, "--json-schema", "@/nowhere/at/all"), 1, "/nowhere/at/all");
    assert_refused(RUN("run", model, "--json-schema", "{\"uniqueItems\":true}"), 1, "uniqueItems");
}

static void choices_in_one_word_are_told_about(void **state) {
    (void)state;
    static const char says[] = "--choice 'yes,no' is one text, which leaves no choice";
    Process p = RUN("run", model, "-i", "Lily", "--choice", "yes,no");
    assert_string_equal(p.out, "yes,no\n"); /* it may be meant */
    if (!strstr(p.err, says)) fail_msg("%s", p.err);
    process_free(&p);
    p = RUN("run", model, "-i", "Lily", "--choice", "yes, do", "--choice", "no");
    assert_string_equal(p.err, "");
    process_free(&p);
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_text_has_its_shape_and_the_same_bytes_on_any_setting),
        cmocka_unit_test(no_text_gets_lost_in_white_space),
        cmocka_unit_test(a_text_that_is_too_long_is_closed),
        cmocka_unit_test(a_text_that_is_cut_says_so),
        cmocka_unit_test(a_batch_gives_what_each_text_gives_alone),
        cmocka_unit_test(a_request_keeps_the_digits_of_its_schema),
        cmocka_unit_test(a_request_says_its_schema_as_other_servers_have_it),
        cmocka_unit_test(a_shape_begins_behind_the_reasoning),
        cmocka_unit_test(texts_are_tested_without_a_model),
        cmocka_unit_test(what_cannot_be_is_refused),
        cmocka_unit_test(choices_in_one_word_are_told_about),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
