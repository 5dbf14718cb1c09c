/* Answers are taken apart into reasoning, text and calls of tools. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "template/answer.h"
#include "template/literal.h"

static const char tools_text[] =
    "[{\"type\": \"function\", \"function\": {\"name\": \"weather\", \"parameters\": {\"type\": "
    "\"object\", \"properties\": {\"city\": {\"type\": \"string\"}, \"days\": {\"type\": "
    "\"integer\"}, \"near\": {\"type\": \"array\"}}}}}, {\"type\": \"function\", \"function\": "
    "{\"name\": \"now\"}}]";

/* A format, as the marks in a template and a whole answer of two calls. */
typedef struct Case {
    const char *name, *marks, *before, *calls;
} Case;

#define WEATHER "{\"city\": \"5 {Oslo}\", \"days\": 3, \"near\": [\"a\", true, null, -1.5]}"

static const Case cases[] = {
    {"tagged JSON", "<tool_call> \"arguments\"", "Let me see.",
     "\n<tool_call>\n{\"name\": \"weather\", \"arguments\": " WEATHER "}\n</tool_call>\n"
     "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>"},
    {"listed JSON", "<tool_calls> \"arguments\"", "Yes.",
     "\n<tool_calls>[{\"name\": \"weather\", \"arguments\": " WEATHER "}, {\"name\": \"now\", "
     "\"arguments\": {}}]</tool_calls>"},
    {"listed JSON", "<tool_calls> \"arguments\"", "",
     "<tool_calls>\n{\"name\": \"weather\", \"arguments\": " WEATHER "}\n{\"name\": \"now\", "
     "\"arguments\": {}}\n</tool_calls>"},
    {"function tags", "<tool_call> <function= <parameter=", "Well:",
     "\n\n<tool_call>\n<function=weather>\n<parameter=city>\n5 {Oslo}\n</parameter>\n"
     "<parameter=days>\n3\n</parameter>\n<parameter=near>\n[\"a\", true, null, -1.5]\n"
     "</parameter>\n</function>\n</tool_call>\n<tool_call>\n<function=now>\n</function>\n"
     "</tool_call>"},
    {"argument tags", "<tool_call> <arg_key>", "",
     "<tool_call>weather\n<arg_key>city</arg_key>\n<arg_value>5 {Oslo}</arg_value>\n"
     "<arg_key>days</arg_key>\n<arg_value>3</arg_value>\n<arg_key>near</arg_key>\n"
     "<arg_value>[\"a\", true, null, -1.5]</arg_value>\n</tool_call>\n<tool_call>now\n"
     "</tool_call>"},
    {"JSON", "<|start_header_id|> \"parameters\"", "",
     "{\"name\": \"weather\", \"parameters\": " WEATHER "}; {\"name\": \"now\", "
     "\"parameters\": {}}"},
    {"mistral", "[TOOL_CALLS]", "",
     "[TOOL_CALLS][{\"name\": \"weather\", \"arguments\": " WEATHER "}, {\"name\": \"now\", "
     "\"arguments\": {}}]"},
    {"mistral", "[TOOL_CALLS] [ARGS]", "So",
     "[TOOL_CALLS]weather[CALL_ID]a1b2c3d4e[ARGS]" WEATHER "[TOOL_CALLS]now[ARGS]{}"},
    {"deepseek", "<｜tool▁calls▁begin｜>", "Hm.",
     "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>weather\n```json\n" WEATHER
     "\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>now\n```json\n{}\n```"
     "<｜tool▁call▁end｜><｜tool▁calls▁end｜>"},
    {"deepseek", "<｜tool▁calls▁begin｜>", "Hm.",
     "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>weather<｜tool▁sep｜>" WEATHER
     "<｜tool▁call▁end｜><｜tool▁call▁begin｜>now<｜tool▁sep｜>{}<｜tool▁call▁end｜>"
     "<｜tool▁calls▁end｜>"},
    {"kimi", "<|tool_calls_section_begin|>", "I look.",
     "<|tool_calls_section_begin|><|tool_call_begin|>functions.weather:0"
     "<|tool_call_argument_begin|>" WEATHER "<|tool_call_end|><|tool_call_begin|>functions.now:1"
     "<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>"},
    {"gemma", "<|tool_call>call:", "",
     "<|tool_call>call:weather{city:<|\"|>5 {Oslo}<|\"|>,days:3,near:[<|\"|>a<|\"|>,true,null,"
     "-1.5]}<tool_call|><|tool_call>call:now{}<tool_call|>"},
    {"python", "<|tool_list_start|>", "Fine.",
     "<|tool_call_start|>[weather(city=\"5 {Oslo}\", days=3, near=['a', True, None, -1.5]), "
     "now()]<|tool_call_end|>"},
};
enum { N_CASES = sizeof cases / sizeof *cases };

static json_t *tools_of_request(void) {
    json_t *tools = json_loads(tools_text, 0, NULL);
    assert_non_null(tools);
    return tools;
}

static AnswerFormat format_of(const char *marks) {
    return (AnswerFormat){.tools = tool_format_find(marks, strlen(marks)),
                          .think_open = "<think>",
                          .think_close = "</think>"};
}

static void assert_text(const TextBuffer *text, const char *expected) {
    if (text->length != strlen(expected) || memcmp(text->bytes, expected, text->length) != 0)
        fail_msg("'%.*s' instead of '%s'", (int)text->length, text->bytes, expected);
}

static void assert_calls(const Case *c, const json_t *calls) {
    static const char *const names[] = {"weather", "now"}, *const arguments[] = {WEATHER, "{}"};
    if (json_array_size(calls) != 2) fail_msg("%s: %zu calls", c->name, json_array_size(calls));
    for (size_t i = 0; i < 2; i++) {
        const json_t *call = json_array_get(calls, i);
        const char *text = json_string_value(json_object_get(call, "arguments"));
        json_t *found = json_loads(text, 0, NULL), *wanted = json_loads(arguments[i], 0, NULL);
        assert_string_equal(json_string_value(json_object_get(call, "name")), names[i]);
        if (!json_equal(found, wanted)) fail_msg("%s: %s", c->name, text);
        json_decref(found);
        json_decref(wanted);
    }
}

static void calls_of_every_format_are_read(void **state) {
    json_t *tools = tools_of_request();
    (void)state;
    for (size_t i = 0; i < N_CASES; i++) {
        const Case *c = &cases[i];
        const AnswerFormat format = format_of(c->marks);
        char text[2048];
        Answer answer;
        assert_non_null(format.tools);
        assert_string_equal(format.tools->name, c->name);
        int n = snprintf(text, sizeof text, "<think>\nHm, 1 < 2.\n</think>\n\n%s%s", c->before,
                         c->calls);
        assert_true(answer_split(&format, text, (size_t)n, false, tools, &answer));
        assert_text(&answer.reasoning, "Hm, 1 < 2.");
        assert_text(&answer.content, c->before);
        assert_calls(c, answer.calls);
        answer_free(&answer);
    }
    json_decref(tools);
}

/* What a limit cut off, wherever, is neither a call nor an error; nothing is read after the end. */
static void a_call_that_is_cut_off_stays_text(void **state) {
    json_t *tools = tools_of_request();
    (void)state;
    for (size_t i = 0; i < N_CASES; i++) {
        const AnswerFormat format = format_of(cases[i].marks);
        size_t whole = strlen(cases[i].calls);
        for (size_t n = 0; n < whole; n++) {
            char *text = malloc(n ? n : 1); /* its end is where AddressSanitizer sees it */
            Answer answer;
            assert_non_null(text);
            memcpy(text, cases[i].calls, n);
            assert_true(answer_split(&format, text, n, false, tools, &answer));
            if (!answer.calls) assert_int_equal(answer.content.length, n);
            if (json_array_size(answer.calls) == 2) assert_calls(&cases[i], answer.calls);
            answer_free(&answer);
            free(text);
        }
    }
    json_decref(tools);
}

/* What was told of an answer while it grew is what it holds in the end. */
static void check_growing(const AnswerFormat *format, const char *text, bool opened,
                          const json_t *tools) {
    Answer whole, part;
    size_t n = strlen(text), told = 0;
    assert_true(answer_split(format, text, n, opened, tools, &whole));
    for (size_t i = 0; i <= n; i++) {
        assert_true(answer_split_so_far(format, text, i, opened, tools, &part));
        assert_null(part.calls);
        assert_true(part.content.length >= told && part.content.length <= whole.content.length);
        assert_memory_equal(part.content.bytes, whole.content.bytes, part.content.length);
        assert_true(part.reasoning.length <= whole.reasoning.length);
        assert_memory_equal(part.reasoning.bytes, whole.reasoning.bytes, part.reasoning.length);
        told = part.content.length;
        answer_free(&part);
    }
    answer_free(&whole);
}

static void parts_of_an_answer_that_grows_stay_as_they_were_told(void **state) {
    json_t *tools = tools_of_request();
    char text[2048];
    (void)state;
    for (size_t i = 0; i < N_CASES; i++) {
        const AnswerFormat format = format_of(cases[i].marks);
        snprintf(text, sizeof text, "<think>\nHm, 1 < 2. </thin.\n</think>\n\n%s%s",
                 cases[i].before, cases[i].calls);
        check_growing(&format, text, false, tools);
        check_growing(&format, text + strlen("<think>"), true, tools);
        text[strlen(text) - 3] = '\0'; /* a call that is cut off */
        check_growing(&format, text, false, tools);
        check_growing(&format, "\n<thing> is no mark\n <", false, tools);
    }
    const AnswerFormat channels = {.has_channels = true};
    check_growing(&channels,
                  "<|channel|>analysis<|message|>Hm < 2<|end|><|start|>assistant<|channel|>final"
                  "<|message|>Yes.",
                  false, NULL);
    json_decref(tools);
}

static void a_call_of_no_tool_of_the_request_stays_text(void **state) {
    static const char text[] = "<tool_call>{\"name\": \"rm\", \"arguments\": {}}</tool_call>";
    json_t *tools = tools_of_request();
    const AnswerFormat format = format_of(cases[0].marks);
    Answer answer;
    (void)state;
    assert_true(answer_split(&format, text, strlen(text), false, tools, &answer));
    assert_null(answer.calls);
    assert_text(&answer.content, text);
    answer_free(&answer);
    json_decref(tools);
}

static void reasoning_is_cut_from_the_beginning_alone(void **state) {
    const AnswerFormat format = format_of("");
    const struct {
        const char *text;
        bool opened;
        const char *reasoning, *content; /* reasoning NULL: there is none */
    } texts[] = {
        {"\n<think>\n\n</think>\n\nYes.", false, "", "Yes."},
        {"a\nb</think> Yes.", true, "a\nb", " Yes."},
        {"still thinking", true, "still thinking", ""},
        {"<think>cut", false, "cut", ""},
        {"The tag <think> opens.</think>", false, NULL, "The tag <think> opens.</think>"},
        {"", false, NULL, ""},
    };
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        Answer answer;
        assert_true(answer_split(&format, texts[i].text, strlen(texts[i].text), texts[i].opened,
                                 NULL, &answer));
        assert_int_equal(answer.has_reasoning, texts[i].reasoning != NULL);
        assert_text(&answer.reasoning, texts[i].reasoning ? texts[i].reasoning : "");
        assert_text(&answer.content, texts[i].content);
        answer_free(&answer);
    }
}

static void channels_are_told_apart(void **state) {
    static const char marks[] = "<|channel|> <|message|> functions.";
    static const char text[] =
        "<|channel|>analysis<|message|>Think.<|end|><|start|>assistant<|channel|>commentary"
        "<|message|>I look.<|end|><|start|>assistant<|channel|>commentary to=functions.weather "
        "<|constrain|>json<|message|>{\"city\": \"Oslo\"}<|call|>";
    static const char last[] = "<|channel|>analysis<|message|>Hm<|end|><|start|>assistant"
                               "<|channel|>final<|message|>Yes.";
    json_t *tools = tools_of_request();
    const AnswerFormat format = {.has_channels = true,
                                 .tools = tool_format_find(marks, strlen(marks))};
    Answer answer;
    (void)state;
    assert_true(answer_split(&format, text, strlen(text), false, tools, &answer));
    assert_text(&answer.reasoning, "Think.");
    assert_text(&answer.content, "I look.");
    assert_int_equal(json_array_size(answer.calls), 1);
    answer_free(&answer);
    assert_true(answer_split(&format, last, strlen(last), false, NULL, &answer));
    assert_text(&answer.reasoning, "Hm");
    assert_text(&answer.content, "Yes.");
    answer_free(&answer);
    for (size_t n = 0; n < strlen(text); n++) {
        assert_true(answer_split(&format, text, n, false, tools, &answer));
        answer_free(&answer);
    }
    json_decref(tools);
}

static void literals_are_bounded(void **state) {
    char deep[400];
    (void)state;
    memset(deep, '[', sizeof deep);
    const char *at = deep;
    assert_null(literal_read(&at, deep + sizeof deep, &literal_python, NULL));
    static const char *const wrong[] = {"",   "{",     "{a:1}", "[1,", "[1 2]",
                                        "'a", "{'a'}", "nan",   ","};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        at = wrong[i];
        assert_null(literal_read(&at, at + strlen(at), &literal_python, NULL));
    }
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_of_every_format_are_read),
        cmocka_unit_test(a_call_that_is_cut_off_stays_text),
        cmocka_unit_test(parts_of_an_answer_that_grows_stay_as_they_were_told),
        cmocka_unit_test(a_call_of_no_tool_of_the_request_stays_text),
        cmocka_unit_test(reasoning_is_cut_from_the_beginning_alone),
        cmocka_unit_test(channels_are_told_apart),
        cmocka_unit_test(literals_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
