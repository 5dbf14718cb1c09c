/* Published models, where scripts/real-models has brought them: in the folder that
 * VERBATIM_REAL_MODELS names, else in ~/.cache/verbatim-real-models. Each must write one text on
 * any number of threads, with any chunk, with and without drafts, with narrower instructions and in
 * a batch. scripts/real-models compares the same models with other programs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <unistd.h>

#include "tests/process.h"

/* Code that repeats itself, so that lookup drafts are made and accepted. */
#define PROMPT                                                                                     \
    "int min(int a, int b) { return a < b ? a : b; }\nint max(int a, int b) { return a > b ? a : " \
    "b; }\n\n/* The same for float. */\nfloat"
#define TOKENS "64"

/* Converts a model into the build directory and returns the path, or skips the case when the model
 * is not on this machine; malloc'ed. */
static char *converted_model(const char *name) {
    const char *folder = getenv("VERBATIM_REAL_MODELS"), *home = getenv("HOME");
    const char *rest = folder ? "" : "/.cache/verbatim-real-models";
    char source[512], *target = build_path("real_model.bin");
    folder = folder ? folder : home ? home : "";
    snprintf(source, sizeof source, "%s%s/%s", folder, rest, name);
    if (access(source, R_OK) != 0) {
        print_message("[  SKIPPED ] %s is not here: scripts/real-models fetch\n", source);
        free(target);
        skip();
    }
    Process p = RUN("export", "--force", "-q", source, target);
    PROCESS_SAYS(p, 0, "");
    return target;
}

/* Returns what the model writes greedily after PROMPT with these options; malloc'ed. */
#define TEXT_WITH(model, ...)                                                                      \
    text_of(RUN("run", model, "-i", PROMPT, "-n", TOKENS, "-t", "0", "--ignore-eos", __VA_ARGS__))
static char *text_of(Process p) {
    if (p.status != 0) print_message("%s\n", p.err);
    assert_int_equal(p.status, 0);
    char *text = strdup(p.out);
    process_free(&p);
    return text;
}

static void assert_texts(char *expected, char *text) {
    assert_string_equal(text, expected);
    free(text);
}

static void writes_one_text(const char *name) {
    char *model = converted_model(name), *batch = build_path("real_model.jsonl");
    char *text = TEXT_WITH(model, "-j", "1");
    assert_true(strlen(text) > 0);
    assert_texts(text, TEXT_WITH(model, "-j", "2"));
    assert_texts(text, TEXT_WITH(model, "-j", "3", "--chunk", "5"));
    assert_texts(text, TEXT_WITH(model, "--draft", "none"));
    /* Plain C needs seconds for a token of the largest of them. */
    char *first = TEXT_WITH(model, "-n", "6");
    assert_texts(first, TEXT_WITH(model, "-n", "6", "--isa", "reference"));
    assert_int_equal(strncmp(text, first, strlen(first)), 0);
    free(first);
    assert_texts(text, TEXT_WITH(model, "-c", "512"));

    /* Beside other requests: four lines, of which the second is the text's. */
    static const char requests[] = "Hello\nint min(int a, int b) { return a < b ? a : b; }\n";
    file_write(batch, requests, sizeof requests - 1);
    Process alone = RUN("run", model, "-i", "int min(int a, int b) { return a < b ? a : b; }", "-n",
                        TOKENS, "-t", "0", "--ignore-eos");
    Process beside = RUN("run", model, "--batch", batch, "--batch-text", "--ordered", "-n", TOKENS,
                         "-t", "0", "--ignore-eos", "--max-concurrent", "2");
    assert_int_equal(alone.status, 0);
    assert_int_equal(beside.status, 0);
    const char *second = strchr(beside.out, '\n');
    assert_non_null(second);
    char *quoted =
        alone.out; /* the first line of it has no character that JSON escapes differently */
    quoted[strcspn(quoted, "\n\"\\\t")] = '\0';
    assert_non_null(strstr(second, quoted));
    process_free(&alone);
    process_free(&beside);
    free(text);
    unlink(model);
    unlink(batch);
    free(batch);
    free(model);
}

static void smollm2_writes_one_text_in_every_way(void **state) {
    (void)state;
    writes_one_text("SmolLM2-135M-Instruct.Q4_1.gguf");
}

static void gemma_writes_one_text_in_every_way(void **state) {
    (void)state;
    writes_one_text("gemma-3-270m-q4_k_m.gguf");
}

static void qwen_coder_writes_one_text_in_every_way(void **state) {
    (void)state;
    writes_one_text("qwen2.5-coder-1.5b-instruct-q4_k_m.gguf");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(smollm2_writes_one_text_in_every_way),
        cmocka_unit_test(gemma_writes_one_text_in_every_way),
        cmocka_unit_test(qwen_coder_writes_one_text_in_every_way),
    };
    return cmocka_run_group_tests_name("published models", tests, NULL, NULL);
}
