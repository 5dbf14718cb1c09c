/* A call of a tool goes round: from an answer to a result, back as a message, and into the prompt
 * that transformers renders.
 *
 *     build/tests/test_tool_round_trips             the tests
 *     build/tests/test_tool_round_trips --driver    JSON lines in, JSON lines out, for
 *                                                   fixtures/tool_round_trips.py */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "template/answer.h"
#include "template/message_forms.h"
#include "tests/json_lines.h"

static const struct tm now = {.tm_year = 124, .tm_mon = 6, .tm_mday = 26};

/* What a client sends back of an answer: content, reasoning, and calls with arguments as texts. */
static json_t *message_of(const Answer *answer) {
    json_t *message = json_pack("{s:s}", "role", "assistant"), *calls = json_array(), *call;
    size_t i;
    bool is_null = answer->calls && answer->content.length == 0;
    json_object_set_new(message, "content",
                        is_null ? json_null()
                                : json_stringn(answer->content.bytes, answer->content.length));
    if (answer->has_reasoning)
        json_object_set_new(message, "reasoning_content",
                            json_stringn(answer->reasoning.bytes, answer->reasoning.length));
    json_array_foreach(answer->calls, i, call) {
        char id[16];
        snprintf(id, sizeof id, "call%05u", (unsigned)i % 100000);
        json_array_append_new(
            calls, json_pack("{s:s, s:s, s:O}", "id", id, "type", "function", "function", call));
    }
    json_object_set_new(message, "tool_calls", calls);
    return message;
}

/* Splits the answer of {"template", "messages", "tools", "answer", "opened"} and renders the
 * conversation with its message and results of its calls: {"message", "rendered"}. */
static json_t *go_round(const json_t *request) {
    Error error = {""};
    const json_t *text = json_object_get(request, "template");
    const json_t *raw = json_object_get(request, "answer");
    const json_t *tools = json_object_get(request, "tools");
    Answer answer;
    ChatTemplateOutput out = {0};
    ChatTemplate *t =
        chat_template_compile(json_string_value(text), json_string_length(text), &error);
    if (!t) return json_pack("{s:s}", "error", error.text);
    const AnswerFormat format =
        answer_format(json_string_value(text), json_string_length(text), NULL);
    if (!answer_split(&format, json_string_value(raw), json_string_length(raw),
                      json_is_true(json_object_get(request, "opened")), tools, &answer))
        return NULL;
    json_t *message = message_of(&answer), *call;
    json_t *messages = json_copy(json_object_get(request, "messages"));
    size_t i;
    json_array_append(messages, message);
    json_array_foreach(json_object_get(message, "tool_calls"), i, call) {
        json_array_append_new(messages,
                              json_pack("{s:s, s:O, s:O, s:s}", "role", "tool", "tool_call_id",
                                        json_object_get(call, "id"), "name",
                                        json_object_get(json_object_get(call, "function"), "name"),
                                        "content", "{\"answer\": 42}"));
    }
    json_t *variables = json_pack("{s:b, s:n, s:s, s:s}", "add_generation_prompt", 1, "documents",
                                  "bos_token", "<s>", "eos_token", "</s>");
    const CallStyle style = messages_call_style(t, variables, now);
    JsonDigits *digits = json_digits_new();
    json_object_set_new(variables, "messages", messages_prepare(messages, style, NULL, digits));
    json_object_set(variables, "tools", (json_t *)tools);
    const ChatTemplateInput input = {.variables = variables, .digits = digits, .now = now};
    json_t *reply = json_pack("{s:o, s:i, s:s*}", "message", message, "style", (int)style, "format",
                              format.tools ? format.tools->name : NULL);
    if (chat_template_render(t, &input, &out, &error) == STATUS_OK)
        json_object_set_new(reply, "rendered", json_stringn(out.text, out.length));
    else
        json_object_set_new(reply, "error", json_string(error.text));
    chat_template_output_free(&out);
    chat_template_free(t);
    answer_free(&answer);
    json_decref(variables);
    json_digits_free(digits);
    json_decref(messages);
    return reply;
}

/* Each line of the fixture has what transformers renders of the same messages. */
static void a_call_comes_back_as_transformers_renders_it(void **state) {
    static const char path[] = "tests/fixtures/tool_round_trips.jsonl";
    FILE *file = fopen(path, "rb");
    char *line = NULL;
    size_t capacity = 0, n = 0;
    (void)state;
    if (!file) fail_msg("%s: run the tests in the source directory", path);
    for (; getline(&line, &capacity, file) > 0; n++) {
        json_t *request = json_loads(line, 0, NULL);
        assert_non_null(request);
        json_t *reply = go_round(request);
        const char *name = json_string_value(json_object_get(request, "name"));
        if (!json_equal(json_object_get(json_object_get(reply, "message"), "tool_calls"),
                        json_object_get(request, "calls")))
            fail_msg("%s: %s", name, json_dumps(reply, 0));
        if (!json_equal(json_object_get(reply, "rendered"), json_object_get(request, "rendered")))
            fail_msg("%s: %s\n\n%s", name, json_string_value(json_object_get(reply, "rendered")),
                     json_string_value(json_object_get(request, "rendered")));
        json_decref(reply);
        json_decref(request);
    }
    assert_true(n >= 10);
    free(line);
    fclose(file);
}

/* What the model wrote as a number is what the client gets and what the next prompt holds, whatever
 * 64 bits or a double make of it (RFC 8259, 6: an implementation sets limits; Python's json keeps
 * whole numbers of any length). Half of a surrogate pair, which json.dumps writes of such a text,
 * reads as U+FFFD. */
static void numbers_keep_their_digits_both_ways(void **state) {
    static const char template[] =
        "<tool_call>{\"name\": \"arguments\"}{% for m in messages %}{% for c in m.tool_calls or [] "
        "%}"
        "{{ c.function.arguments | tojson }} {{ c.function.arguments.a }} "
        "{{ c.function.arguments.b | string }} {{ c.function.arguments.b | default(0) + 1 == 2.5 }}"
        "{% endfor %}{% endfor %}";
    static const char written[] =
        "{\"a\": 12897688668976892758, \"b\": 1.50, \"c\": -9223372036854775809, \"d\": 1e400, "
        "\"e\": -0, \"f\": 0.1, \"g\": [1E5, {\"h\": 1e-7}], \"s\": \"%sx\"}";
    char given[512], kept[512], answer[600], rendered[700];
    (void)state;
    snprintf(given, sizeof given, written, "\\ud800");
    snprintf(kept, sizeof kept, written, "\xEF\xBF\xBD");
    snprintf(answer, sizeof answer, "<tool_call>{\"name\": \"f\", \"arguments\": %s}</tool_call>",
             given);
    snprintf(rendered, sizeof rendered,
             "<tool_call>{\"name\": \"arguments\"}%s 12897688668976892758 1.50 True", kept);
    json_t *request = json_pack("{s:s, s:[], s:[{s:{s:s}}], s:s}", "template", template, "messages",
                                "tools", "function", "name", "f", "answer", answer);
    json_t *reply = go_round(request);
    const json_t *message = json_object_get(reply, "message");
    const json_t *call = json_array_get(json_object_get(message, "tool_calls"), 0);
    const json_t *arguments = json_object_get(json_object_get(call, "function"), "arguments");
    assert_non_null(arguments);
    assert_string_equal(json_string_value(arguments), kept);
    assert_string_equal(json_string_value(json_object_get(reply, "rendered")), rendered);
    json_decref(reply);
    json_decref(request);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_call_comes_back_as_transformers_renders_it),
        cmocka_unit_test(numbers_keep_their_digits_both_ways),
    };
    if (argc == 2 && strcmp(argv[1], "--driver") == 0) return json_lines_serve(go_round);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
