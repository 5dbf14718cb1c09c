/* Fuzz target: renders the input as a chat template over a fixed conversation; JSON after a NUL
 * byte replaces the template's variables. Rendering must end with an error, or with valid UTF-8
 * text and a flag of 0 or 1 for each byte. */
#include "template/chat_template.h"

#include <stdlib.h>
#include <string.h>

static const char conversation[] =
    "{\"messages\": [{\"role\": \"system\", \"content\": \"Be <|im_end|> br\\u00efef.\"},"
    "{\"role\": \"user\", \"content\": \" Hi \\ud83d\\ude42\\n\"},"
    "{\"role\": \"assistant\", \"content\": null, \"tool_calls\": [{\"id\": \"abcdefghi\", "
    "\"function\":"
    "{\"name\": \"f\", \"arguments\": {\"a\": [1, 2.5, true, null]}}}]},"
    "{\"role\": \"tool\", \"content\": \"42\"}], \"tools\": [{\"function\": {\"name\": \"f\","
    "\"parameters\": {\"properties\": {\"a\": {\"type\": \"array\"}}}}}],"
    "\"s\": \"h\\u00e9llo\", \"n\": 7, \"f\": 2.5, \"l\": [3, 1, 2], \"d\": {\"a\": 1, \"b\": "
    "\"x\"},"
    "\"eos_token\": \"<|im_end|>\", \"add_generation_prompt\": true}";

static const char *const trusted[] = {"eos_token", NULL};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    Error error = {0};
    const uint8_t *nul = size ? memchr(data, 0, size) : NULL;
    size_t length = nul ? (size_t)(nul - data) : size;
    ChatTemplate *t = chat_template_compile((const char *)data, length, &error);
    if (!t) return error.text[0] ? 0 : (abort(), 0);
    json_t *variables = NULL;
    if (nul) variables = json_loadb((const char *)nul + 1, size - length - 1, JSON_ALLOW_NUL, NULL);
    if (!variables) variables = json_loads(conversation, 0, NULL);
    ChatTemplateInput input = {.variables = variables, .trusted = trusted};
    ChatTemplateOutput output;
    if (chat_template_render(t, &input, &output, &error) == STATUS_OK) {
        json_t *text = json_stringn(output.text, output.length); /* NULL unless UTF-8 */
        if (!text) abort();
        for (size_t i = 0; i < output.length; i++) {
            if (output.from_template[i] > 1) abort();
        }
        json_decref(text);
    }
    chat_template_output_free(&output);
    json_decref(variables);
    chat_template_free(t);
    return 0;
}
