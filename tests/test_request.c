/* Lines of a batch: how they are parsed, which are refused and why, and their results. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "modes/batch/batch_files.h"
#include "modes/batch/batch_memory.h"
#include "modes/batch/result.h"

static GenerationOptions defaults(void) {
    GenerationOptions options = {.sampling = sampler_options_default(), .max_tokens = 256};
    options.eos[0] = 2;
    options.n_eos = 1;
    return options;
}

static Status parse(Request *r, const char *line, Error *error) {
    const GenerationOptions options = defaults();
    return request_parse(r, line, strlen(line), 3, &options, error);
}

static Request parsed(const char *line) {
    Request r;
    Error error;
    if (parse(&r, line, &error) != STATUS_OK) fail_msg("%s: %s", line, error.text);
    return r;
}

static void refused(const char *line, const char *why) {
    Request r;
    Error error = {""};
    if (parse(&r, line, &error) == STATUS_OK) fail_msg("accepted: %s", line);
    if (!strstr(error.text, why)) fail_msg("%s: '%s' says nothing of '%s'", line, error.text, why);
    request_free(&r);
}

static void options_have_the_names_of_the_command_line(void **state) {
    (void)state;
    Request r = parsed("{\"prompt\": \"a\", \"max_tokens\": 7, \"temperature\": 0.5, \"top_k\": 3,"
                       " \"top_p\": 0.25, \"min_p\": 0.125, \"repetition_penalty\": 1.5,"
                       " \"presence_penalty\": -1, \"frequency_penalty\": 2, \"seed\": 11,"
                       " \"stop\": [\"x\", \"yz\"], \"logit_bias\": {\"5\": -2.5}, \"n\": 4,"
                       " \"ignore_eos\": true, \"logprobs\": 2}");
    const SamplerOptions *s = &r.options.sampling;
    assert_int_equal(r.options.max_tokens, 7);
    assert_true(s->temperature == 0.5f && s->top_k == 3 && s->top_p == 0.25f && s->min_p == 0.125f);
    assert_true(s->repetition_penalty == 1.5f && s->presence_penalty == -1.0f);
    assert_true(s->frequency_penalty == 2.0f && s->seed == 11);
    assert_int_equal(r.options.n_stop, 2);
    assert_string_equal(r.options.stop[1], "yz");
    assert_int_equal(s->n_bias, 1);
    assert_true(s->bias[0].token == 5 && s->bias[0].bias == -2.5f);
    assert_int_equal(r.n, 4);
    assert_int_equal(r.options.n_eos, 0);
    assert_true(r.wants_logprobs && r.top_logprobs == 2);
    request_free(&r);
}

static void what_a_line_leaves_out_is_the_command_lines(void **state) {
    (void)state;
    Request r = parsed("{\"prompt\": \"a\", \"temperature\": null, \"stop\": null}");
    assert_int_equal(r.options.max_tokens, 256);
    assert_true(r.options.sampling.temperature == 1.0f);
    assert_int_equal(r.options.n_eos, 1);
    assert_null(r.id);
    request_free(&r);
}

static void a_shape_is_read_in_each_of_its_forms(void **state) {
    static const struct {
        const char *field, *text;
        ShapeKind kind;
    } forms[] = {
        {"\"response_format\": {\"type\": \"json_object\"}", "", SHAPE_JSON_OBJECT},
        {"\"response_format\": {\"type\": \"json_schema\", \"json_schema\": {\"name\": \"x\", "
         "\"strict\": true, \"schema\": {\"type\": \"null\"}}}",
         "{\"type\":\"null\"}", SHAPE_JSON_SCHEMA},
        {"\"structured_outputs\": {\"json\": \"{}\", \"regex\": null}", "{}", SHAPE_JSON_SCHEMA},
        {"\"structured_outputs\": {\"choice\": [\"a\", \"b\"]}", "[\"a\",\"b\"]", SHAPE_CHOICE},
        {"\"structured_outputs\": {\"grammar\": \"root ::= [a]\"}", "root ::= [a]", SHAPE_GRAMMAR},
        {"\"regex\": \"a+\"", "a+", SHAPE_REGEX},
        {"\"json\": true", "", SHAPE_JSON_OBJECT},
    };
    (void)state;
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        char line[512];
        snprintf(line, sizeof line, "{\"prompt\": \"a\", %s}", forms[i].field);
        Request r = parsed(line);
        assert_true(r.shape.given);
        assert_int_equal(r.shape.source.kind, forms[i].kind);
        assert_string_equal(r.shape.source.text, forms[i].text);
        request_free(&r);
    }
}

static void fields_that_change_nothing_are_ignored_and_others_refused(void **state) {
    (void)state;
    Request r = parsed("{\"prompt\": \"a\", \"model\": \"x\", \"user\": \"u\", \"metadata\": {},"
                       " \"store\": true, \"service_tier\": \"auto\", \"stream\": false,"
                       " \"response_format\": {\"type\": \"text\"}}");
    assert_string_equal(r.model, "x");
    request_free(&r);
    refused("{\"prompt\": \"a\", \"temprature\": 1}",
            "'temprature' is not supported; did you mean 'temperature'?");
    refused("{\"prompt\": \"a\", \"max_new_tokens\": 5}", "did you mean 'max_tokens'?");
    refused("{\"prompt\": \"a\", \"repeat_penalty\": 2}", "did you mean 'repetition_penalty'?");
    refused("{\"prompt\": \"a\", \"guided_regex\": \"b\"}", "did you mean 'regex'?");
    refused("{\"prompt\": \"a\", \"system\": \"b\"}", "of 'messages' may have the role system");
    refused("{\"prompt\": \"a\", \"options\": {}}", "its members stand in the request itself");
    refused("{\"prompt\": \"a\", \"max_output_tokens\": 5}", "did you mean 'max_tokens'?");
    refused("{\"custom_id\": 1, \"prompt\": \"a\"}",
            "a request without 'body' has no 'custom_id': its name is 'id'");
    refused("{\"prompt\": \"a\", \"best_of\": 3}", "'best_of' must be the same as 'n'");
    refused("{\"prompt\": \"a\", \"suffix\": \"b\"}",
            "'suffix' is not supported, unless it is empty");
    r = parsed("{\"prompt\": \"a\", \"best_of\": 1, \"suffix\": \"\"}");
    request_free(&r);
    refused("{\"conversations\": []}", "they are 'messages'");
    refused("{\"prompt\": \"a\", \"format\": \"json\"}", "goes into 'response_format'");
    refused("{\"instruction\": \"a\"}", "a question is one of 'messages'");
    refused("{\"promt\": \"a\"}", "'promt' is not supported; did you mean 'prompt'?");
    refused("{\"custom_idd\": 1, \"url\": \"/v1/completions\", \"body\": {}}",
            "did you mean 'custom_id'?");
    refused("{\"custom_id\": 1, \"url\": \"/v1/completions\", \"max_tokens\": 3, \"body\": {}}",
            "'max_tokens' belongs into 'body'");
    refused("{\"prompt\": \"a\", \"response_format\": {\"type\": \"xml\"}}", "response_format");
    refused("{\"prompt\": \"a\", \"response_format\": {\"type\": \"json_schema\", \"schema\": {}, "
            "\"json_schema\": {\"schema\": {}}}}",
            "the field 'schema' is not supported");
    refused(
        "{\"prompt\": \"a\", \"response_format\": {\"type\": \"json_object\"}, \"regex\": \"a\"}",
        "given twice");
    refused("{\"prompt\": \"a\", \"structured_outputs\": {\"structural_tag\": \"a\"}}",
            "structural_tag");
    refused("{\"prompt\": \"a\", \"stream\": 1}", "stream");
    refused("{\"messages\": [{\"role\": \"user\"}], \"tool_choice\": \"required\"}", "tool_choice");
    refused("{\"custom_id\": \"a\", \"method\": \"POST\", \"url\": \"/v1/chat/completions\","
            " \"body\": {\"messages\": [{\"role\": \"user\"}], \"audio\": {}}}",
            "audio");
    refused("{\"custom_id\": \"a\", \"method\": \"POST\", \"url\": \"/v1/completions\","
            " \"body\": {\"prompt\": \"a\", \"best_of\": 3}}",
            "best_of");
}

static void wrong_lines_are_refused_by_name(void **state) {
    (void)state;
    refused("", "not JSON");
    refused("[1]", "not a JSON object but a list: each line is one object");
    refused("Once upon a time", "--batch-text takes each line as a prompt");
    refused("{'prompt': 'a'}", "JSON has double quotes around its texts");
    refused("{\"messages\": []}", "'messages' is empty: there is nothing to answer");
    refused("{\"messages\": \"Hi\"}", "must be a list, like [{\"role\": \"user\"");
    refused("[", "jq -c '.[]' FILE");
    refused("]", "jq -c '.[]' FILE");
    refused("{\"prompt\": \"a\"},", "without a list around them: jq -c '.[]' FILE");
    refused("{", "Each line is one whole object: jq -c '.' FILE");
    refused("{\"prompt\": \"a\"} {\"prompt\": \"b\"}",
            "Each object has a line of its own: jq -c '.' FILE");
    refused("{\"prompt\": \"a\"} x", "not JSON");
    refused("{\"prompt\": \"a\", \"prompt\": \"b\"}", "not JSON");
    refused("{\"prompt\": \"\\ud800\"}", "not JSON");
    refused("{\"id\": 1}", "no 'prompt'");
    refused("{\"id\": [], \"prompt\": \"a\"}", "'id'");
    refused("{\"prompt\": 5}", "'prompt'");
    refused("{\"prompt\": []}", "'prompt'");
    refused("{\"prompt\": \"a\", \"messages\": [{\"role\": \"user\"}]}", "both");
    refused("{\"messages\": [{\"content\": \"a\"}]}", "number 1");
    refused("{\"prompt\": \"a\", \"temperature\": -1}", "range");
    refused("{\"prompt\": \"a\", \"temperature\": true}", "a number");
    refused("{\"prompt\": \"a\", \"max_tokens\": 2.5}", "whole");
    refused("{\"prompt\": \"a\", \"max_tokens\": -1}", "range");
    refused("{\"prompt\": \"a\", \"n\": 100000}", "range");
    refused("{\"prompt\": \"a\", \"stop\": \"\"}", "empty");
    refused("{\"prompt\": \"a\", \"stop\": [\"a\\u0000b\"]}", "zero byte");
    refused("{\"prompt\": \"a\", \"stop\": [4]}", "list of texts");
    /* A name with a zero byte is not the name before it. */
    refused("{\"prompt\": \"a\", \"model\": \"b\\u0000c\"}", "zero bytes");
    refused("{\"prompt\": \"a\", \"response_format\": {\"type\": \"text\\u0000\"}}", "'type'");
    refused("{\"messages\": [{\"role\": \"user\\u0000\", \"content\": \"a\"}]}", "number 1");
    refused("{\"url\": \"/v1/completions\\u0000\", \"method\": \"POST\", \"body\": {}}", "'url'");
    refused("{\"url\": \"/v1/completions\", \"method\": \"POST\\u0000\", \"body\": {}}",
            "'method'");
    refused("{\"prompt\": \"a\", \"logit_bias\": {\"x\": 1}}", "token id");
    refused("{\"prompt\": \"a\", \"logit_bias\": {\"4\": 1e9}}", "bias of token 4");
    refused("{\"prompt\": \"a\", \"top_logprobs\": 3}", "logprobs");
    refused("{\"prompt\": \"a\", \"logprobs\": 21}", "range");
    refused("{\"url\": \"/v1/responses\", \"method\": \"POST\", \"body\": {}}", "'url'");
    refused("{\"url\": \"/v1/completions\", \"method\": \"GET\", \"body\": {}}", "'method'");
    refused("{\"url\": \"/v1/completions\", \"method\": \"POST\"}", "'body'");
}

static void a_refused_line_still_has_its_id_and_form(void **state) {
    (void)state;
    Request r;
    Error error;
    assert_int_equal(parse(&r, "{\"id\": \"q\", \"prompt\": 5}", &error), STATUS_FAILED);
    assert_string_equal(json_string_value(r.id), "q");
    request_free(&r);
    assert_int_equal(parse(&r, "{\"custom_id\": \"q\", \"url\": \"/v1/completions\"}", &error),
                     STATUS_FAILED);
    assert_int_equal(r.format, REQUEST_COMPLETION);
    assert_string_equal(json_string_value(r.id), "q");
    request_free(&r);
}

static void ids_are_told_apart_by_type_and_value(void **state) {
    (void)state;
    static const char *const lines[] = {
        "{\"id\": 1, \"prompt\": \"a\"}", "{\"id\": \"1\", \"prompt\": \"a\"}",
        "{\"id\": 2, \"prompt\": \"a\"}", "{\"prompt\": \"a\"}", "{\"prompt\": \"b\"}"};
    RecordKey keys[5];
    for (size_t i = 0; i < 5; i++) {
        Request r = parsed(lines[i]);
        keys[i] = request_key(&r);
        for (size_t k = 0; k < i; k++)
            assert_false(keys[i].low == keys[k].low && keys[i].high == keys[k].high);
        request_free(&r);
    }
}

/* ---- Results --------------------------------------------------------------------------------- */

static const ResultMaker maker = {.model = "m", .fingerprint = "fp_0123456789abcdef"};

/* The result of a request with one prompt token and this text; the caller calls json_decref. */
static json_t *answer(Request *r, const char *text, size_t length) {
    r->prompts = calloc(1, sizeof *r->prompts);
    r->n_prompts = 1;
    assert_true(token_list_push(&r->prompts[0], 1));
    Choice choice = {.finish = FINISH_LENGTH, .n_tokens = 3};
    text_put(&choice.text, text, length, 0);
    char *line = result_line(&maker, r, &choice);
    assert_non_null(line);
    assert_null(strchr(line, '\n'));
    ResultLine read;
    Error error;
    assert_int_equal(result_read(line, strlen(line), &read, &error), STATUS_OK);
    RecordKey key = request_key(r);
    assert_true(read.key.low == key.low && read.key.high == key.high && !read.failed);
    assert_string_equal(read.fingerprint, maker.fingerprint);
    json_t *json = json_loads(line, JSON_ALLOW_NUL, NULL);
    assert_non_null(json);
    free(line);
    choice_free(&choice);
    return json;
}

static void a_json_reader_gets_back_what_was_generated(void **state) {
    (void)state;
    static const char text[] = "a\0b\n\t\"\\\x01 \xE2\x98\x83 \xF0\x9F\x98\x80 \xE2\x80\xA8";
    Request r = parsed("{\"prompt\": \"a\"}");
    json_t *json = answer(&r, text, sizeof text - 1);
    const json_t *got = json_object_get(json, "text");
    assert_int_equal(json_string_length(got), sizeof text - 1);
    assert_memory_equal(json_string_value(got), text, sizeof text - 1);
    assert_null(json_object_get(json, "bytes"));
    assert_int_equal(json_integer_value(json_object_get(json, "line")), 3);
    json_decref(json);
    request_free(&r);
}

static void what_is_no_utf8_stands_beside_the_text_as_bytes(void **state) {
    (void)state;
    static const char text[] = "ok\xC3(\xE2\x98";
    Request r = parsed("{\"id\": 1, \"prompt\": \"a\"}");
    json_t *json = answer(&r, text, sizeof text - 1);
    assert_string_equal(json_string_value(json_object_get(json, "text")),
                        "ok\xEF\xBF\xBD(\xEF\xBF\xBD");
    const json_t *bytes = json_object_get(json, "bytes");
    assert_int_equal(json_array_size(bytes), sizeof text - 1);
    for (size_t i = 0; i < sizeof text - 1; i++)
        assert_int_equal(json_integer_value(json_array_get(bytes, i)), (unsigned char)text[i]);
    json_decref(json);
    request_free(&r);
}

static void openai_results_carry_the_answer_in_their_body(void **state) {
    (void)state;
    Request r = parsed("{\"custom_id\": \"c\", \"method\": \"POST\", \"url\": "
                       "\"/v1/chat/completions\", \"body\": {\"model\": \"gpt\", "
                       "\"messages\": [{\"role\": \"user\", \"content\": \"x\"}]}}");
    json_t *json = answer(&r, "yes", 3), *again;
    const json_t *body = json_object_get(json_object_get(json, "response"), "body");
    const json_t *choice = json_array_get(json_object_get(body, "choices"), 0);
    assert_string_equal(json_string_value(json_object_get(json, "custom_id")), "c");
    assert_true(json_is_null(json_object_get(json, "error")));
    assert_string_equal(json_string_value(json_object_get(body, "object")), "chat.completion");
    assert_string_equal(json_string_value(json_object_get(body, "model")), "gpt");
    assert_string_equal(
        json_string_value(json_object_get(json_object_get(choice, "message"), "content")), "yes");
    assert_string_equal(json_string_value(json_object_get(choice, "finish_reason")), "length");
    token_list_free(&r.prompts[0]);
    free(r.prompts);
    again = answer(&r, "yes", 3);
    assert_true(json_equal(json, again));
    json_decref(again);
    json_decref(json);
    request_free(&r);
}

static void error_lines_are_results_too(void **state) {
    (void)state;
    Request r;
    Error error;
    ResultLine read;
    assert_int_equal(parse(&r, "{\"custom_id\": \"q\"}", &error), STATUS_FAILED);
    char *line = result_error_line(&maker, &r, error.text);
    assert_int_equal(result_read(line, strlen(line), &read, &error), STATUS_OK);
    assert_true(read.failed);
    RecordKey key = request_key(&r);
    assert_true(read.key.low == key.low && read.key.high == key.high);
    assert_string_equal(read.fingerprint, maker.fingerprint);
    free(line);
    request_free(&r);
    static const char *const foreign[] = {"{}", "5", "{\"id\": 1}",
                                          "{\"system_fingerprint\": \"a\"}"};
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(result_read(foreign[i], strlen(foreign[i]), &read, &error), STATUS_FAILED);
}

static void logprobs_are_those_of_the_whole_distribution(void **state) {
    (void)state;
    /* softmax of log(1..4) is 0.1 .. 0.4; ties go to the lower id. */
    const float logits[] = {0.0f, 0.693147181f, 1.09861229f, 1.38629436f, -100.0f, 1.38629436f};
    float scratch[6];
    TokenLogprob top[3];
    double total = result_logprobs(&numeric_reference, logits, 6, 3, top, scratch);
    assert_true(fabs(total - log(14.0)) < 1e-6);
    assert_int_equal(top[0].token, 3);
    assert_int_equal(top[1].token, 5);
    assert_int_equal(top[2].token, 2);
    assert_true(fabs((double)top[2].logprob - log(3.0 / 14.0)) < 1e-6);
}

/* ---- Sizes and lines ------------------------------------------------------------------------- */

static void sizes_are_read_as_people_write_them(void **state) {
    (void)state;
    size_t bytes;
    Error error;
    assert_int_equal(batch_memory("512M", &bytes, &error), STATUS_OK);
    assert_int_equal(bytes, 512u << 20);
    assert_int_equal(batch_memory("1.5GiB", &bytes, &error), STATUS_OK);
    assert_int_equal(bytes, 3u << 29);
    assert_int_equal(batch_memory("8000000", &bytes, &error), STATUS_OK);
    assert_int_equal(bytes, 8000000);
    static const char *const wrong[] = {"", "-1", "1X", "M", "1e99G", "nan", "inf", "4 G"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(batch_memory(wrong[i], &bytes, &error), STATUS_USAGE);
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_have_the_names_of_the_command_line),
        cmocka_unit_test(what_a_line_leaves_out_is_the_command_lines),
        cmocka_unit_test(a_shape_is_read_in_each_of_its_forms),
        cmocka_unit_test(fields_that_change_nothing_are_ignored_and_others_refused),
        cmocka_unit_test(wrong_lines_are_refused_by_name),
        cmocka_unit_test(a_refused_line_still_has_its_id_and_form),
        cmocka_unit_test(ids_are_told_apart_by_type_and_value),
        cmocka_unit_test(a_json_reader_gets_back_what_was_generated),
        cmocka_unit_test(what_is_no_utf8_stands_beside_the_text_as_bytes),
        cmocka_unit_test(openai_results_carry_the_answer_in_their_body),
        cmocka_unit_test(error_lines_are_results_too),
        cmocka_unit_test(logprobs_are_those_of_the_whole_distribution),
        cmocka_unit_test(sizes_are_read_as_people_write_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
