/* Calls of tools and reasoning as a user of a batch sees them: held to the formats' own syntax,
 * with a random model, which writes whatever may be written. */
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

#include "constraint/shape_source.h"
#include "tests/fixture.h"
#include "tests/process.h"
#include "tests/tier.h"

/* A random model whose vocabulary has the marks of all formats as control tokens. */
typedef struct Place {
    char *directory, *model, *input, *output, *other, *template;
} Place;

static int open_place(void **state) {
    Place *p = calloc(1, sizeof *p);
    p->directory = fixture_directory();
    p->model = fixture_path(p->directory, "model.bin");
    p->input = fixture_path(p->directory, "requests.jsonl");
    p->output = fixture_path(p->directory, "results.jsonl");
    p->other = fixture_path(p->directory, "other.jsonl");
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
    free(p->input);
    free(p->output);
    free(p->other);
    free(p->template);
    fixture_remove_directory(p->directory);
    free(p);
    return 0;
}

/* ---- Requests -------------------------------------------------------------------------------- */

#define WEATHER                                                                                    \
    "{\"type\":\"object\",\"properties\":{\"city\":{\"type\":\"string\",\"maxLength\":5},"         \
    "\"days\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":9},\"near\":{\"$ref\":\"#/$defs/"    \
    "n\"}}"                                                                                        \
    ",\"required\":[\"city\",\"days\"],\"additionalProperties\":false,\"$defs\":{\"n\":{\"enum\":" \
    "[true,null,\"so\"]}}}"

static const char weather[] = WEATHER;
#define TOOLS                                                                                      \
    "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"weather\",\"parameters\":" WEATHER \
    "}},{\"type\":\"function\",\"function\":{\"name\":\"now\"}}],"
#define STRICT                                                                                     \
    "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"weather\",\"strict\":true,"        \
    "\"parameters\":" WEATHER "}}],"
#define BEGIN "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}],\"max_tokens\":80,"

/* Marks of a template, and the token with which a call begins; NULL: none. */
static const struct Format {
    const char *name, *marks, *begin;
} formats[] = {
    {"tagged JSON", "<tool_call> \"arguments\"", "<tool_call>"},
    {"listed JSON", "<tool_calls>[ \"arguments\"", NULL},
    {"lines of JSON", "<tool_calls> \"arguments\"", NULL},
    {"function tags", "<tool_call> <function=", "<tool_call>"},
    {"argument tags", "<tool_call> <arg_key>", "<tool_call>"},
    {"tight argument tags", "<tool_call> <arg_key>a</arg_key><arg_value>", "<tool_call>"},
    {"JSON", "<|start_header_id|> \"parameters\"", NULL},
    {"mistral's list", "[TOOL_CALLS]", "[TOOL_CALLS]"},
    {"mistral", "[TOOL_CALLS] [ARGS]", "[TOOL_CALLS]"},
    {"deepseek's blocks", "<｜tool▁calls▁begin｜> ```json", "<｜tool▁calls▁begin｜>"},
    {"deepseek", "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁begin｜>"},
    {"kimi", "<|tool_calls_section_begin|>", "<|tool_calls_section_begin|>"},
    {"channels", "<|channel|> <|message|> functions.", NULL},
};
enum { N_FORMATS = sizeof formats / sizeof *formats };

/* Writes a template that holds the marks and ends prompts with `end`. */
static void write_template(const Place *p, const char *marks, const char *end) {
    char text[512];
    int n = snprintf(text, sizeof text,
                     "{# %s tools #}{%% for m in messages %%}{{ m.content }}{%% endfor %%}%s",
                     marks, end);
    file_write(p->template, text, (size_t)n);
}

/* Answers the lines and returns the results in order. */
static json_t *answers(const Place *p, const char *lines, const char *option, const char *value) {
    Process run =
        process_run((const char *const[]){"run", p->model, "--batch", "-", "--ordered",
                                          "--chat-template", p->template, option, value, NULL},
                    lines, strlen(lines));
    json_t *all = json_array();
    for (char *rest = run.out, *line; (line = strsep(&rest, "\n")) && *line;) {
        json_t *result = json_loads(line, JSON_ALLOW_NUL, NULL);
        if (!result) fail_msg("%s", line);
        json_array_append_new(all, result);
    }
    if (json_array_size(all) == 0) fail_msg("%s", run.err);
    process_free(&run);
    return all;
}

static const char *text_of(const json_t *json, const char *key) {
    const char *text = json_string_value(json_object_get(json, key));
    return text ? text : "";
}

static bool has_shape(const char *schema, const char *text) {
    const ShapeSource source = {
        .kind = SHAPE_JSON_SCHEMA, .text = schema, .length = strlen(schema)};
    Acceptor *acceptor;
    Error error;
    assert_int_equal(shape_source_compile(&source, &acceptor, &error), STATUS_OK);
    AcceptorState state = acceptor_start(acceptor);
    for (; *text; text++) state = acceptor_step(acceptor, state, (unsigned char)*text);
    bool accepts = state != ACCEPTOR_DEAD && acceptor_accepts(acceptor, state);
    acceptor_free(acceptor);
    return accepts;
}

/* Expects from `least` to `most` calls, each of a function and with arguments that are valid. */
static void assert_calls(const char *name, const json_t *result, size_t least, size_t most) {
    const json_t *calls = json_object_get(result, "tool_calls");
    size_t n = json_array_size(calls);
    if (n < least || n > most) {
        char *text = json_dumps(result, 0);
        fail_msg("%s: %zu calls: %s", name, n, text);
    }
    for (size_t i = 0; i < n; i++) {
        const json_t *function = json_object_get(json_array_get(calls, i), "function");
        const char *arguments = text_of(function, "arguments");
        bool is_now = strcmp(text_of(function, "name"), "now") == 0;
        if (is_now ? strcmp(arguments, "{}") != 0 : !has_shape(weather, arguments))
            fail_msg("%s: %s %s", name, text_of(function, "name"), arguments);
    }
}

/* ---- Calls ----------------------------------------------------------------------------------- */

static void a_required_call_comes_in_every_format(void **state) {
    static const char lines[] = BEGIN TOOLS
        "\"tool_choice\":\"required\",\"n\":4,\"chat_template_kwargs\":{\"enable_thinking\":false}}"
        "\n" BEGIN TOOLS "\"tool_choice\":{\"type\":\"function\",\"function\":{\"name\":"
        "\"weather\"}},\"seed\":7,\"reasoning_budget\":3,\"n\":2}\n";
    const Place *p = *state;
    for (size_t i = 0; i < N_FORMATS; i++) {
        if (!tier_takes(i, 3, 1)) continue;
        char marks[128];
        snprintf(marks, sizeof marks, "%s <think></think>", formats[i].marks);
        write_template(p, marks, "");
        json_t *all = answers(p, lines, "--on-length", "close");
        const json_t *many = json_object_get(json_array_get(all, 0), "choices");
        const json_t *named = json_object_get(json_array_get(all, 1), "choices");
        assert_int_equal(json_array_size(many), 4);
        for (size_t k = 0; k < 4; k++)
            assert_calls(formats[i].name, json_array_get(many, k), 1, 80);
        for (size_t k = 0; k < 2; k++) {
            const json_t *choice = json_array_get(named, k);
            const json_t *calls = json_object_get(choice, "tool_calls");
            assert_calls(formats[i].name, choice, 1, 1);
            assert_string_equal(
                text_of(json_object_get(json_array_get(calls, 0), "function"), "name"), "weather");
            assert_string_equal(text_of(choice, "text"), "");
        }
        json_decref(all);
    }
}

/* Whatever a function is called, its call comes back with the whole name, in Kimi's ids, too. */
static void a_function_may_have_any_name(void **state) {
    static const char longest[] =
        "f234567890123456789012345678901234567890123456789012345678901234";
    static const char *const marks[] = {"<|tool_calls_section_begin|>", "<｜tool▁calls▁begin｜>",
                                        "<｜tool▁calls▁begin｜> ```json"};
    const char *const names[] = {longest, "function", "functions.f:1"};
    const Place *p = *state;
    for (size_t i = 0; i < 9; i++) {
        char line[512], id[128];
        const char *name = names[i % 3];
        write_template(p, marks[i / 3], "");
        snprintf(line, sizeof line,
                 BEGIN "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"%s\"}}],"
                       "\"tool_choice\":\"required\",\"parallel_tool_calls\":false}\n",
                 name);
        snprintf(id, sizeof id, "functions.%s:0", name);
        json_t *all = answers(p, line, "--on-length", "close");
        const json_t *calls = json_object_get(json_array_get(all, 0), "tool_calls");
        const json_t *call = json_array_get(calls, 0);
        assert_string_equal(text_of(json_object_get(call, "function"), "name"), name);
        if (i < 3) assert_string_equal(text_of(call, "id"), id);
        json_decref(all);
    }
}

/* The model may write what it likes, until it begins a call. */
static void a_strict_call_is_held_once_it_has_begun(void **state) {
    static const char free_text[] = BEGIN STRICT "\"max_tokens\":12}\n";
    const Place *p = *state;
    json_t *tokenizer = json_load_file("tests/fixtures/marks_tokenizer.json", 0, NULL), *token;
    for (size_t i = 0; i < N_FORMATS; i++) {
        if (!tier_takes(i + 1, 2, 1)) continue;
        char line[2048];
        size_t k, id = 0;
        write_template(p, formats[i].marks, "");
        if (formats[i].begin) {
            json_array_foreach(json_object_get(tokenizer, "added_tokens"), k, token) {
                if (strcmp(text_of(token, "content"), formats[i].begin) == 0)
                    id = (size_t)json_integer_value(json_object_get(token, "id"));
            }
            assert_true(id > 0);
            snprintf(line, sizeof line,
                     "%s%s\"parallel_tool_calls\":false,\"logit_bias\":{\"%zu\":1000}}\n", BEGIN,
                     STRICT, id);
            json_t *all = answers(p, line, "--on-length", "close");
            assert_calls(formats[i].name, json_array_get(all, 0), 1, 1);
            json_decref(all);
        }
        json_t *all = answers(p, free_text, "-s", "1");
        assert_calls(formats[i].name, json_array_get(all, 0), 0, 0);
        json_decref(all);
    }
    json_decref(tokenizer);
}

static void an_answer_has_its_shape_or_calls_a_tool(void **state) {
    static const char lines[] = BEGIN STRICT "\"choice\":[\"yes\"],\"temperature\":20,\"n\":8}\n";
    const Place *p = *state;
    size_t n_calls = 0, n_texts = 0;
    for (size_t i = 0; i < N_FORMATS; i++) {
        write_template(p, formats[i].marks, "");
        json_t *all = answers(p, lines, "--on-length", "close"), *choice;
        size_t k;
        json_array_foreach(json_object_get(json_array_get(all, 0), "choices"), k, choice) {
            if (json_object_get(choice, "tool_calls")) {
                assert_calls(formats[i].name, choice, 1, 80);
                n_calls++;
            } else {
                assert_string_equal(text_of(choice, "text"), "yes");
                n_texts++;
            }
        }
        json_decref(all);
    }
    assert_true(n_calls > 0 && n_texts > 0);
}

/* ---- Requests of the openai package -----------------------------------------------------------
 */

/* The schema of the parameters of a tool of the request, as text; freed by the caller. */
static char *schema_of(const json_t *body, const char *name) {
    const json_t *tool;
    size_t i;
    json_array_foreach(json_object_get(body, "tools"), i, tool) {
        const json_t *function = json_object_get(tool, "function");
        if (strcmp(text_of(function, "name"), name) == 0)
            return json_dumps(json_object_get(function, "parameters"), 0);
    }
    return NULL;
}

/* Expects a message to be what its request asks for. */
static void check_message(const char *name, const json_t *body, const json_t *message) {
    const json_t *calls = json_object_get(message, "tool_calls"), *call;
    const json_t *format = json_object_get(json_object_get(body, "response_format"), "json_schema");
    const json_t *choice = json_object_get(body, "tool_choice");
    size_t i, n = json_array_size(calls);
    bool needs_call =
        json_is_object(choice) || strcmp(text_of(body, "tool_choice"), "required") == 0;
    json_array_foreach((json_t *)calls, i, call) {
        const json_t *function = json_object_get(call, "function");
        char *schema = schema_of(body, text_of(function, "name"));
        if (!schema || !has_shape(schema, text_of(function, "arguments")))
            fail_msg("%s: %s", name, json_dumps(message, 0));
        assert_string_equal(text_of(call, "type"), "function");
        free(schema);
    }
    if (json_is_false(json_object_get(body, "parallel_tool_calls"))) assert_true(n <= 1);
    if (needs_call && (n == 0 || !json_is_null(json_object_get(message, "content"))))
        fail_msg("%s: %s", name, json_dumps(message, 0));
    if (format && n == 0) {
        char *schema = json_dumps(json_object_get(format, "schema"), 0);
        if (!has_shape(schema, text_of(message, "content")))
            fail_msg("%s: %s", name, json_dumps(message, 0));
        free(schema);
    }
}

/* fixtures/openai_tools.py --check reads such results into Python classes. */
static void requests_of_the_openai_package_get_what_they_ask_for(void **state) {
    static const size_t some[] = {0, 1, 3, 6, 7, N_FORMATS - 1};
    const Place *p = *state;
    size_t length;
    char *lines = file_read("tests/fixtures/openai-tools.jsonl", &length);
    for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
        if (!tier_takes(i, 3, 1)) continue;
        const struct Format *f = &formats[some[i]];
        write_template(p, f->marks, "");
        json_t *all = answers(p, lines, "--on-length", "close"), *result, *choice;
        size_t k, c;
        char *copy = strdup(lines), *rest = copy;
        json_array_foreach(all, k, result) {
            json_t *request = json_loads(strsep(&rest, "\n"), 0, NULL);
            const json_t *body = json_object_get(json_object_get(result, "response"), "body");
            if (json_array_size(json_object_get(body, "choices")) == 0)
                fail_msg("%s: %s", f->name, json_dumps(result, 0));
            json_array_foreach(json_object_get(body, "choices"), c, choice) {
                check_message(f->name, json_object_get(request, "body"),
                              json_object_get(choice, "message"));
            }
            json_decref(request);
        }
        assert_int_equal(k, 8);
        free(copy);
        json_decref(all);
    }
    free(lines);
}

/* ---- Reasoning ------------------------------------------------------------------------------- */

/* A user's shape may spell the marks of a reasoning: no token in it is forced then. */
static void a_shape_may_spell_the_marks_of_a_reasoning(void **state) {
    static const char lines[] =
        BEGIN "\"choice\":[\"<think>abc\"],\"reasoning_budget\":0}\n" BEGIN
              "\"regex\":\"<think>[a-c]{5}</think>d\",\"reasoning_budget\":3}\n";
    const Place *p = *state;
    write_template(p, "<think></think>", "");
    json_t *all = answers(p, lines, "-s", "1");
    for (size_t i = 0; i < 2; i++) {
        const json_t *answer = json_array_get(all, i);
        if (json_object_get(answer, "error")) fail_msg("%s", json_dumps(answer, 0));
        assert_string_equal(text_of(answer, "finish_reason"), "stop");
    }
    assert_string_equal(text_of(json_array_get(all, 1), "text"), "d");
    json_decref(all);
}

static void the_end_of_a_reasoning_is_forced(void **state) {
    static const char lines[] = BEGIN
        "\"reasoning_budget\":0}\n" BEGIN "\"reasoning_budget\":6}\n" BEGIN
        "\"thinking_budget_tokens\":6}\n" BEGIN "\"reasoning_budget\":-1}\n" BEGIN "\"n\":1}\n";
    static const struct {
        const char *marks, *end;
    } templates[] = {{"<think></think>", "<think>\n"}, {"[THINK] [/THINK]", "[THINK]"}};
    const Place *p = *state;
    for (size_t i = 0; i < 2; i++) {
        write_template(p, templates[i].marks, templates[i].end);
        json_t *all = answers(p, lines, "--reasoning-budget", "6");
        assert_int_equal(json_array_size(all), 5);
        assert_string_equal(text_of(json_array_get(all, 0), "reasoning_content"), "");
        assert_string_not_equal(text_of(json_array_get(all, 0), "text"), "");
        for (size_t k = 1; k < 5; k++) {
            const char *text = text_of(json_array_get(all, k), "text");
            const char *thought = text_of(json_array_get(all, k), "reasoning_content");
            assert_string_not_equal(thought, "");
            /* Without a limit the random model never comes to an end. */
            assert_int_equal(*text == '\0', k == 3);
            if (k == 2 || k == 4)
                assert_string_equal(thought, text_of(json_array_get(all, 1), "reasoning_content"));
        }
        json_decref(all);
    }
}

/* ---- Exact -----------------------------------------------------------------------------------
 */

/* Lines with different shapes, tools and limits. */
static void write_lines(const char *path) {
    static const char *const ends[] = {
        TOOLS "\"tool_choice\":\"required\"}\n",
        TOOLS "\"tool_choice\":\"required\",\"reasoning_budget\":5,\"n\":2}\n",
        STRICT "\"reasoning_budget\":5}\n",
        "\"choice\":[\"yes\",\"no\"],\"reasoning_budget\":4,\"n\":3}\n",
        "\"json_schema\":{\"type\":\"array\",\"items\":{\"type\":\"integer\"},\"maxItems\":4},"
        "\"reasoning_budget\":1,\"logprobs\":2}\n",
        "\"reasoning_budget\":9}\n",
        "\"temperature\":0}\n",
        STRICT "\"tool_choice\":\"required\",\"choice\":[\"a\"],\"temperature\":0,"
               "\"chat_template_kwargs\":{\"enable_thinking\":false}}\n"};
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    for (size_t i = 0; i < 24; i++)
        fprintf(
            f,
            "{\"id\":%zu,\"seed\":%zu,\"messages\":[{\"role\":\"user\",\"content\":\"Say %zu\"}],"
            "\"max_tokens\":%zu,%s",
            i, i / 8, i % 5, 30 + i % 3 * 20, ends[i % 8]);
    assert_int_equal(fclose(f), 0);
}

static void run_lines(const Place *p, const char *output, const char *const *more) {
    const char *argv[PROCESS_MAX_ARGUMENTS] = {
        "run",       p->model,      "--batch", p->input,          "-o",       output,
        "--ordered", "--on-length", "close",   "--chat-template", p->template};
    size_t n = 11;
    for (size_t i = 0; more[i]; i++) argv[n++] = more[i];
    argv[n] = NULL;
    Process run = process_run(argv, NULL, 0);
    if (run.status != 0) fail_msg("%s", run.err);
    process_free(&run);
}

#define MORE(...) ((const char *const[]){__VA_ARGS__, NULL})

static void results_are_the_same_on_any_setting_and_when_resumed(void **state) {
    const Place *p = *state;
    size_t n, m;
    write_template(p, "<tool_call> \"arguments\" <think></think>", "\n");
    write_lines(p->input);
    run_lines(p, p->output, MORE("-j", "1", "--lookup", "0"));
    char *first = file_read(p->output, &n);
    const char *const *settings[] = {MORE("-j", "2", "--lookup", "6", "--chunk", "3"),
                                     MORE("-j", "2", "--max-concurrent", "2", "--lookup", "2")};
    for (size_t i = 0; i < 2; i++) {
        run_lines(p, p->other, settings[i]);
        char *second = file_read(p->other, &m);
        assert_int_equal(n, m);
        assert_memory_equal(first, second, n);
        free(second);
        unlink(p->other);
    }
    /* What a kill leaves: whole lines and a part of one. */
    for (size_t part = 1; part < 4; part++) {
        file_write(p->other, first, n * part / 4);
        run_lines(p, p->other, MORE("--resume", "-j", "2", "--lookup", "3"));
        char *second = file_read(p->other, &m);
        assert_int_equal(n, m);
        assert_memory_equal(first, second, n);
        free(second);
        unlink(p->other);
    }
    free(first);
}

/* ---- Errors ---------------------------------------------------------------------------------- */

static void expect_error(const Place *p, const char *line, const char *message) {
    json_t *all = answers(p, line, "-s", "1");
    const char *found = text_of(json_object_get(json_array_get(all, 0), "error"), "message");
    if (!strstr(found, message)) fail_msg("'%s' is not in '%s'", message, found);
    json_decref(all);
}

#define FUNCTION(name, parameters)                                                                 \
    "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"" name                             \
    "\",\"parameters\":" parameters "}}],\"tool_choice\":\"required\"}\n"

/* Each tag has the definitions of all, which a short request could make very many. */
static void repeated_definitions_are_refused(void **state) {
    enum { N = 4000, DEFINITION = 20000 };
    const Place *p = *state;
    char *line = malloc(N * 40 + DEFINITION + 1000), *at = line;
    assert_non_null(line);
    write_template(p, "<tool_call> <function=", "");
    at += sprintf(at,
                  "%s\"tools\":[{\"function\":{\"name\":\"f\",\"strict\":true,\"parameters\":{"
                  "\"$defs\":{\"n\":{\"description\":\"",
                  BEGIN);
    memset(at, 'x', DEFINITION);
    at += DEFINITION;
    at += sprintf(at, "\"}},\"properties\":{");
    for (int i = 0; i < N; i++) at += sprintf(at, "\"k%d\":{\"$ref\":\"#/$defs/n\"},", i);
    sprintf(at - 1, "}}}}]}\n");
    expect_error(p, line, "too large to be enforced");
    free(line);
}

static void what_cannot_be_held_is_refused_by_name(void **state) {
    const Place *p = *state;
    write_template(p, "<|tool_call>call:", "");
    expect_error(p, BEGIN TOOLS "\"tool_choice\":\"required\"}\n", "'gemma' can be read, but not");
    write_template(p, "<|tool_call_start|>", "");
    expect_error(p, BEGIN STRICT "\"n\":1}\n", "'python' can be read, but not");
    write_template(p, "<tool_call> \"arguments\"", "");
    expect_error(p, BEGIN "\"tool_choice\":\"required\"}\n", "there are no 'tools'");
    expect_error(p, BEGIN TOOLS "\"tool_choice\":\"always\"}\n", "'tool_choice' must be");
    expect_error(p,
                 BEGIN TOOLS "\"tool_choice\":{\"type\":\"function\",\"function\":{\"name\":\"rm\""
                             "}}}\n",
                 "no function 'rm'");
    expect_error(p, BEGIN FUNCTION("f\\\"", "{}"), "the name 'f\"' is not made of");
    expect_error(p, BEGIN FUNCTION("f", "{\"type\":\"array\"}"), "'f' are not of \"type\"");
    expect_error(p, BEGIN FUNCTION("f", "{\"properties\":{\"a\":{\"uniqueItems\":true}}}"),
                 "the parameters of 'f': ");
    expect_error(p, BEGIN "\"reasoning_budget\":3}\n", "marks reasoning in no way");
    expect_error(p, "{\"prompt\":\"a\",\"reasoning_budget\":3}\n", "needs 'messages'");
    write_template(p, "<tool_call> <function=", "");
    expect_error(p, BEGIN FUNCTION("f", "{\"minProperties\":2}"), "'minProperties' cannot be");
    expect_error(p, BEGIN FUNCTION("f", "{\"required\":[\"a\"]}"), "names 'a'");
    expect_error(p,
                 BEGIN FUNCTION("f", "{\"properties\":{\"a\":{\"type\":\"string\",\"format\":"
                                     "\"date\"}}}"),
                 "'format' cannot be enforced");
    expect_error(p, BEGIN FUNCTION("f", "{\"properties\":{\"a\":{\"$ref\":\"#/properties/b\"}}}"),
                 "'$ref' to '#/properties/b' cannot be enforced");
    expect_error(p, BEGIN FUNCTION("f", "{\"properties\":{\"a\":3}}"), "'a' has no schema");
    expect_error(p, BEGIN FUNCTION("f", "{\"properties\":{\"a\":false},\"required\":[\"a\"]}"),
                 "no text has this shape");
    expect_error(p, BEGIN FUNCTION("f", "{\"properties\":[1]}"), "'properties' must be an object");
    expect_error(
        p, BEGIN FUNCTION("f", "{\"properties\":{\"a\":{\"type\":\"string\",\"pattern\":5}}}"),
        "'pattern' must be a text");
    Process run = RUN("run", p->model, "--reasoning-budget", "3");
    assert_int_equal(run.status, 2);
    assert_non_null(strstr(run.err, "need -m chat or --batch"));
    process_free(&run);
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_required_call_comes_in_every_format),
        cmocka_unit_test(a_function_may_have_any_name),
        cmocka_unit_test(a_strict_call_is_held_once_it_has_begun),
        cmocka_unit_test(an_answer_has_its_shape_or_calls_a_tool),
        cmocka_unit_test(requests_of_the_openai_package_get_what_they_ask_for),
        cmocka_unit_test(a_shape_may_spell_the_marks_of_a_reasoning),
        cmocka_unit_test(the_end_of_a_reasoning_is_forced),
        cmocka_unit_test(results_are_the_same_on_any_setting_and_when_resumed),
        cmocka_unit_test(what_cannot_be_held_is_refused_by_name),
        cmocka_unit_test(repeated_definitions_are_refused),
    };
    return cmocka_run_group_tests(tests, open_place, close_place);
}
