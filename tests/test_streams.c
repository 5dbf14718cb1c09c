/* Requests with "stream": the chunks of each text, put together, are what the same request gets
 * without it. The model has random weights and the marks of every format as control tokens. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/text.h"
#include "fixture.h"
#include "process.h"

typedef struct Place {
    char *directory, *model, *template;
} Place;

static int open_place(void **state) {
    Place *p = calloc(1, sizeof *p);
    p->directory = fixture_directory();
    p->model = fixture_path(p->directory, "model.bin");
    p->template = fixture_path(p->directory, "template.jinja");
    Process made = RUN("export", "--random", "tiny,context=1024,vocab_size=290", p->model, "-z",
                       "tests/fixtures/marks_tokenizer.json", "-q");
    if (made.status != 0) print_message("%s", made.err);
    int status = made.status;
    process_free(&made);
    *state = p;
    return status;
}

static int close_place(void **state) {
    Place *p = *state;
    free(p->model);
    free(p->template);
    fixture_remove_directory(p->directory);
    free(p);
    return 0;
}

/* ---- Runs ---- */

/* The lines that the program prints for one request, parsed. */
static json_t *answer(const Place *p, const json_t *request, const char *option) {
    char *line = json_dumps(request, JSON_COMPACT);
    const char *const argv[] = {"run",       p->model, "--batch", "-", "--chat-template",
                                p->template, option,   NULL};
    Process run = process_run(argv, line, strlen(line));
    json_t *all = json_array();
    for (char *rest = run.out, *one; (one = strsep(&rest, "\n")) && *one;)
        json_array_append_new(all, json_loads(one, JSON_ALLOW_NUL, NULL));
    if (json_array_size(all) == 0) fail_msg("%s", run.err);
    process_free(&run);
    free(line);
    return all;
}

static json_t *body_of(const json_t *line) {
    json_t *body = json_object_get(json_object_get(line, "response"), "body");
    if (!json_is_object(body)) fail_msg("%s", json_dumps(line, 0));
    return body;
}

static void append(json_t *to, const char *key, const json_t *more) {
    const json_t *had = json_object_get(to, key);
    if (!json_is_string(more)) return;
    TextBuffer text = {0};
    if (json_is_string(had)) text_put(&text, json_string_value(had), json_string_length(had), 0);
    text_put(&text, json_string_value(more), json_string_length(more), 0);
    json_object_set_new(to, key, json_stringn(text.bytes, text.length));
    text_free(&text);
}

/* Appends each list of `more`, an object of lists, to that of `to`[key]. */
static void append_lists(json_t *to, const char *key, json_t *more) {
    const char *name;
    json_t *list, *had = json_object_get(to, key);
    if (!json_is_object(more)) {
        json_object_set(to, key, more);
        return;
    }
    if (!json_is_object(had)) {
        had = json_object();
        json_object_set_new(to, key, had);
    }
    json_object_foreach(more, name, list) {
        if (json_is_array(list) && json_object_get(had, name))
            json_array_extend(json_object_get(had, name), list);
        else
            json_object_set(had, name, list);
    }
}

/* Puts a chunk's choice to the others of its text. */
static void take_chunk(json_t *choice, const json_t *chunk, bool chat) {
    json_t *delta = json_object_get(chunk, "delta"), *calls = json_object_get(delta, "tool_calls");
    json_t *to = chat ? json_object_get(choice, "message") : choice, *call;
    size_t i;
    assert_true(json_is_null(json_object_get(choice, "finish_reason")));
    append(to, chat ? "content" : "text",
           json_object_get(chat ? delta : chunk, chat ? "content" : "text"));
    append(to, "reasoning_content", json_object_get(delta, "reasoning_content"));
    append(to, "role", json_object_get(delta, "role"));
    json_array_foreach(calls, i, call) {
        assert_int_equal(json_integer_value(json_object_get(call, "index")), i);
        json_object_del(call, "index");
    }
    if (calls) json_object_set(to, "tool_calls", calls);
    append_lists(choice, "logprobs", json_object_get(chunk, "logprobs"));
    json_object_set(choice, "finish_reason", json_object_get(chunk, "finish_reason"));
}

/* The choices that the lines of a stream make; counts the chunks. */
static json_t *put_together(const json_t *lines, size_t n_choices, bool chat, size_t *n_chunks) {
    json_t *choices = json_array(), *line;
    size_t i;
    for (size_t k = 0; k < n_choices; k++) {
        json_t *choice = json_pack("{s:I, s:n}", "index", (json_int_t)k, "finish_reason");
        if (chat) json_object_set_new(choice, "message", json_pack("{s:n}", "refusal"));
        json_array_append_new(choices, choice);
    }
    *n_chunks = json_array_size(lines);
    json_array_foreach(lines, i, line) {
        const json_t *done = json_object_get(json_object_get(line, "response"), "done");
        const json_t *list = json_object_get(body_of(line), "choices");
        const json_t *chunk = json_array_get(list, 0);
        const char *object = json_string_value(json_object_get(body_of(line), "object"));
        assert_string_equal(object, chat ? "chat.completion.chunk" : "text_completion");
        assert_int_equal(json_is_true(done), i + 1 == json_array_size(lines));
        if (json_array_size(list) == 0) continue; /* the usage */
        size_t index = (size_t)json_integer_value(json_object_get(chunk, "index"));
        take_chunk(json_array_get(choices, index), chunk, chat);
    }
    return choices;
}

/* Compares a request's stream with its result without one. Returns the number of chunks. */
static size_t check(const Place *p, const char *url, const char *body_text) {
    bool chat = strstr(url, "chat") != NULL;
    json_t *body = json_loads(body_text, 0, NULL), *usage;
    json_t *request = json_pack("{s:s, s:s, s:s, s:O}", "custom_id", "r", "method", "POST", "url",
                                url, "body", body);
    assert_non_null(body);
    json_t *plain = answer(p, request, NULL), *whole = body_of(json_array_get(plain, 0));
    json_t *choices = json_object_get(whole, "choices");
    json_object_set_new(body, "stream", json_true());
    json_object_set_new(body, "stream_options", json_pack("{s:b}", "include_usage", 1));
    json_t *lines = answer(p, request, NULL);
    size_t n_chunks, last = json_array_size(lines) - 1;
    json_t *told = put_together(lines, json_array_size(choices), chat, &n_chunks);
    for (size_t i = 0; i < json_array_size(choices); i++) {
        json_t *message = json_object_get(json_array_get(choices, i), "message");
        /* A stream has begun with an empty text before it is known that there is none. */
        if (json_is_null(json_object_get(message, "content")))
            json_object_set_new(message, "content", json_string(""));
    }
    if (!json_equal(choices, told))
        fail_msg("%s\nnot %s\nbut %s", body_text, json_dumps(choices, 0), json_dumps(told, 0));
    usage = json_object_get(body_of(json_array_get(lines, last)), "usage");
    assert_true(json_equal(usage, json_object_get(whole, "usage")));
    json_decref(told);
    json_decref(lines);
    json_decref(plain);
    json_decref(request);
    json_decref(body);
    return n_chunks;
}

/* ---- Tests ---- */

#define TOOLS                                                                                      \
    "\"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"now\", \"parameters\": "      \
    "{\"type\": \"object\", \"properties\": {\"days\": {\"type\": \"integer\", \"minimum\": 1, "   \
    "\"maximum\": 9}}, \"required\": [\"days\"], \"additionalProperties\": false}}}]"

static void chunks_make_the_answer_of_every_format(void **state) {
    static const char *const marks[] = {
        "<tool_call> \"arguments\"", "<tool_calls> \"arguments\"",
        "<tool_call> <function=",    "<|channel|> <|message|> functions.",
        "[TOOL_CALLS] [ARGS]",       "<|start_header_id|> \"parameters\""};
    static const char *const bodies[] = {
        "\"max_tokens\": 40, \"logprobs\": true, \"top_logprobs\": 2",
        "\"max_tokens\": 60, \"n\": 2, \"seed\": 3, \"tool_choice\": \"required\", " TOOLS,
        "\"max_tokens\": 30, \"reasoning_budget\": 7, " TOOLS};
    const Place *p = *state;
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
        char text[512];
        int n = snprintf(text, sizeof text,
                         "{# %s tools <think> </think> #}{%% for m in messages %%}{{ m.content }}"
                         "{%% endfor %%}",
                         marks[i]);
        file_write(p->template, text, (size_t)n);
        for (size_t k = 0; k < sizeof bodies / sizeof *bodies; k++) {
            char body[1024];
            snprintf(
                body, sizeof body,
                "{\"model\": \"m\", \"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}], "
                "%s}",
                bodies[k]);
            assert_true(check(p, "/v1/chat/completions", body) >= 2);
        }
    }
}

static void chunks_of_completions_make_the_text(void **state) {
    const Place *p = *state;
    file_write(p->template, "x", 1);
    assert_true(check(p, "/v1/completions",
                      "{\"prompt\": \"One, two\", \"max_tokens\": 20, \"n\": 2, \"seed\": 1}") >
                20);
    check(p, "/v1/completions",
          "{\"prompt\": [\"One\", \"two\"], \"max_tokens\": 9, \"echo\": true, \"logprobs\": 2}");
    check(p, "/v1/completions", "{\"prompt\": \"One\", \"max_tokens\": 0, \"echo\": true}");
}

static void a_stream_that_cannot_be_is_refused(void **state) {
    static const char line[] =
        "{\"custom_id\": \"r\", \"method\": \"POST\", \"url\": "
        "\"/v1/completions\", \"body\": {\"prompt\": \"a\", \"stream\": true}}";
    static const char *const lines[] = {line, "{\"prompt\": \"a\", \"stream\": 1}"};
    static const char *const says[] = {"go to a pipe", "must be true or false"};
    const Place *p = *state;
    for (size_t i = 0; i < 2; i++) {
        const char *const argv[] = {"run", p->model, "--batch", "-", i == 0 ? "--ordered" : NULL,
                                    NULL};
        Process run = process_run(argv, lines[i], strlen(lines[i]));
        assert_int_equal(run.status, 3);
        assert_non_null(strstr(run.out, says[i]));
        process_free(&run);
    }
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chunks_make_the_answer_of_every_format),
        cmocka_unit_test(chunks_of_completions_make_the_text),
        cmocka_unit_test(a_stream_that_cannot_be_is_refused),
    };
    return cmocka_run_group_tests(tests, open_place, close_place);
}
