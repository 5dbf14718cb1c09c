/* A model without a chat template gets the template of the family whose tokens its vocabulary
 * holds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "formats/tokenizers/tokenizer_import.h"
#include "formats/tokenizers/tokenizer_json.h"
#include "template/chat_family.h"
#include "template/chat_template.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A conversation as each family writes it. */
static const struct {
    const char *name, *vocabulary, *rendered;
} families[] = {
    {"chatml", "\"<|im_start|>\":1,\"<|im_end|>\":2",
     "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"
     "<|im_start|>assistant\nHello!<|im_end|>\n<|im_start|>user\nBye<|im_end|>\n"
     "<|im_start|>assistant\n"},
    {"llama-3", "\"<|start_header_id|>\":1,\"<|end_header_id|>\":2,\"<|eot_id|>\":3",
     "<s><|start_header_id|>system<|end_header_id|>\n\nBe brief.<|eot_id|>"
     "<|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>"
     "<|start_header_id|>assistant<|end_header_id|>\n\nHello!<|eot_id|>"
     "<|start_header_id|>user<|end_header_id|>\n\nBye<|eot_id|>"
     "<|start_header_id|>assistant<|end_header_id|>\n\n"},
    {"gemma", "\"<start_of_turn>\":1,\"<end_of_turn>\":2",
     "<s><start_of_turn>user\nBe brief.\n\nHi<end_of_turn>\n<start_of_turn>model\nHello!"
     "<end_of_turn>\n<start_of_turn>user\nBye<end_of_turn>\n<start_of_turn>model\n"},
    {"phi-3", "\"<|user|>\":1,\"<|assistant|>\":2,\"<|end|>\":3",
     "<|system|>\nBe brief.<|end|>\n<|user|>\nHi<|end|>\n<|assistant|>\nHello!<|end|>\n"
     "<|user|>\nBye<|end|>\n<|assistant|>\n"},
    {"granite", "\"<|start_of_role|>\":1,\"<|end_of_role|>\":2,\"<|end_of_text|>\":3",
     "<|start_of_role|>system<|end_of_role|>Be brief.<|end_of_text|>\n"
     "<|start_of_role|>user<|end_of_role|>Hi<|end_of_text|>\n"
     "<|start_of_role|>assistant<|end_of_role|>Hello!<|end_of_text|>\n"
     "<|start_of_role|>user<|end_of_role|>Bye<|end_of_text|>\n"
     "<|start_of_role|>assistant<|end_of_role|>"},
};
enum { N_FAMILIES = sizeof families / sizeof *families };

static json_t *conversation(void) {
    return json_pack("{s:[{s:s,s:s},{s:s,s:s},{s:s,s:s},{s:s,s:s}],s:b,s:s,s:s}", "messages",
                     "role", "system", "content", "Be brief.", "role", "user", "content", "Hi",
                     "role", "assistant", "content", "Hello!", "role", "user", "content", "Bye",
                     "add_generation_prompt", 1, "bos_token", "<s>", "eos_token", "</s>");
}

static void each_family_writes_its_tokens(void **state) {
    (void)state;
    static const char *const trusted[] = {"bos_token", "eos_token", NULL};
    json_t *variables = conversation();
    for (size_t i = 0; i < N_FAMILIES; i++) {
        const ChatFamily *family = chat_family_named(families[i].name);
        Error error = {""};
        assert_non_null(family);
        ChatTemplate *t = chat_template_compile(family->text, strlen(family->text), &error);
        if (!t) fail_msg("%s: %s", family->name, error.text);
        ChatTemplateInput input = {.variables = variables, .trusted = trusted};
        ChatTemplateOutput output;
        if (chat_template_render(t, &input, &output, &error) != STATUS_OK)
            fail_msg("%s: %s", family->name, error.text);
        assert_string_equal(output.text, families[i].rendered);
        /* Every byte of the family's tokens comes from the template, no byte of the user's words
         * does. */
        for (size_t k = 0; k <= 2; k++) {
            const char *mark = k == 2 ? family->end : family->tokens[k];
            for (const char *at = output.text; (at = strstr(at, mark)); at++)
                for (size_t b = 0; b < strlen(mark); b++)
                    assert_int_equal(output.from_template[at - output.text + (ptrdiff_t)b], 1);
        }
        assert_int_equal(output.from_template[strstr(output.text, "Bye") - output.text], 0);
        chat_template_output_free(&output);
        chat_template_free(t);
    }
    json_decref(variables);
    assert_null(chat_family_named("no such family"));
}

static const ChatFamily *family_of(const char *vocabulary) {
    char json[512];
    TokenizerBlob blob;
    Tokenizer *tokenizer = NULL;
    Error error = {""};
    snprintf(json, sizeof json,
             "{\"model\":{\"type\":\"WordLevel\",\"unk_token\":\"u\",\"vocab\":{\"u\":0,%s}}}",
             vocabulary);
    if (tokenizer_import_json(json, strlen(json), NULL, 0, &blob, &error) != STATUS_OK ||
        tokenizer_open(&tokenizer, blob.bytes, blob.size, &error) != STATUS_OK)
        fail_msg("%s", error.text);
    const ChatFamily *family = chat_family_find(tokenizer);
    tokenizer_close(tokenizer);
    tokenizer_blob_free(&blob);
    return family;
}

static void the_vocabulary_names_the_family(void **state) {
    (void)state;
    for (size_t i = 0; i < N_FAMILIES; i++) {
        const ChatFamily *family = family_of(families[i].vocabulary);
        assert_non_null(family);
        assert_string_equal(family->name, families[i].name);
    }
    assert_null(family_of("\"<|im_start|>\":1"));
    assert_null(family_of("\"hello\":1"));
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_family_writes_its_tokens),
        cmocka_unit_test(the_vocabulary_names_the_family),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
