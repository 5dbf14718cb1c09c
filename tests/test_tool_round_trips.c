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
#include "template/messages.h"
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
    json_object_set_new(variables, "messages", messages_prepare(messages, style));
    json_object_set(variables, "tools", (json_t *)tools);
    const ChatTemplateInput input = {.variables = variables, .now = now};
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

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_call_comes_back_as_transformers_renders_it),
    };
    if (argc == 2 && strcmp(argv[1], "--driver") == 0) return json_lines_serve(go_round);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
