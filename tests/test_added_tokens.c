/* Added tokens without an embedding. Some published fine-tunes have a padding token, or a few more,
 * for which the embedding has no row. Such a model runs, but its base vocabulary must fit, and a
 * text that gives the id of such a token is an error that names the token. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "fixture.h"
#include "process.h"

static char *directory, *cache, *file;

/* A vocabulary of words "w0", "w1", ... and two added tokens with the ids after them: <think>,
 * found in any text, and <pad>, found only where special tokens are parsed. */
static void write_tokenizer(size_t n_words) {
    char *path = fixture_path(directory, "tokenizer.json");
    FILE *out = fopen(path, "wb");
    assert_non_null(out);
    fprintf(out, "{\"added_tokens\": [");
    static const char *const added[] = {"<think>", "<pad>"};
    for (size_t i = 0; i < 2; i++)
        fprintf(out,
                "%s{\"id\": %zu, \"content\": \"%s\", \"special\": %s, \"single_word\": false, "
                "\"lstrip\": false, \"rstrip\": false, \"normalized\": false}",
                i ? ", " : "", n_words + i, added[i], i ? "true" : "false");
    fprintf(out, "], \"normalizer\": null, \"pre_tokenizer\": {\"type\": \"WhitespaceSplit\"}, "
                 "\"post_processor\": null, \"decoder\": null, \"model\": {\"type\": "
                 "\"WordLevel\", \"unk_token\": \"w0\", \"vocab\": {");
    for (size_t i = 0; i < n_words; i++) fprintf(out, "%s\"w%zu\": %zu", i ? ", " : "", i, i);
    fprintf(out, "}}}");
    assert_int_equal(fclose(out), 0);
    free(path);
}

static size_t vocab_size;

static int set_up(void **state) {
    (void)state;
    Fixture fixture = fixture_load("llama-gqa");
    directory = fixture_source(&fixture);
    vocab_size = fixture.vocab_size;
    fixture_free(&fixture);
    cache = build_path("tests/added-tokens-cache");
    file = build_path("tests/added-tokens.txt");
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    Process p = RUN("run", "--cache-clear", "--cache-dir", cache);
    process_free(&p);
    rmdir(cache);
    unlink(file);
    fixture_remove_directory(directory);
    free(cache);
    free(file);
    return 0;
}

static void assert_refused(Process p, const char *why) {
    if (!strstr(p.err, why)) print_message("stderr: %s", p.err);
    assert_int_equal(p.status, 1);
    assert_string_equal(p.out, "");
    assert_non_null(strstr(p.err, why));
    process_free(&p);
}

#define GENERATE "run", directory, "--cache-dir", cache, "-t", "0", "-n", "5"

static void a_model_runs_whose_added_tokens_have_no_embedding(void **state) {
    (void)state;
    write_tokenizer(vocab_size);
    Process p = RUN(GENERATE, "-i", "w1 w2");
    if (p.status) print_message("stderr: %s", p.err);
    assert_int_equal(p.status, 0);
    assert_non_null(strstr(p.out, " w"));
    process_free(&p);
    /* A bias on such a token is refused, because the token has no logit. */
    char bias[64];
    snprintf(bias, sizeof bias, "%zu=100", vocab_size);
    assert_refused(RUN(GENERATE, "-i", "w1", "--logit-bias", bias), "outside the vocabulary");
}

static void a_prompt_with_such_a_token_is_refused_by_its_name(void **state) {
    (void)state;
    char why[128];
    write_tokenizer(vocab_size);
    snprintf(why, sizeof why,
             "the prompt: tokenizer: '<think>' is token %zu, but the model has "
             "embeddings for %zu only",
             vocab_size, vocab_size);
    assert_refused(RUN(GENERATE, "-i", "w1 <think>"), why);
    assert_refused(RUN(GENERATE, "--special", "-i", "<pad>"), "'<pad>' is token");
    file_write(file, "w1 w2 <think> w3", 16);
    assert_refused(RUN("run", directory, "--cache-dir", cache, "--eval", file), "'<think>'");
    /* Without --special the text of a special token is ordinary text. */
    Process p = RUN(GENERATE, "-i", "<pad>");
    assert_int_equal(p.status, 0);
    process_free(&p);
}

static void such_a_token_can_be_looked_at(void **state) {
    (void)state;
    char expected[64], back[64];
    write_tokenizer(vocab_size);
    Process p = RUN("run", directory, "--cache-dir", cache, "--tokenize", "-i", "w1 <think>");
    snprintf(expected, sizeof expected, "1 %zu\n", vocab_size);
    assert_string_equal(p.out, expected);
    process_free(&p);
    snprintf(back, sizeof back, "%zu", vocab_size);
    p = RUN("run", directory, "--cache-dir", cache, "--detokenize", "-i", back);
    assert_string_equal(p.out, "<think>");
    process_free(&p);
}

static void one_line_of_a_batch_fails_alone(void **state) {
    (void)state;
    static const char lines[] = "{\"prompt\": \"w1 <think>\"}\n{\"prompt\": \"w1 w2\"}\n";
    write_tokenizer(vocab_size);
    file_write(file, lines, sizeof lines - 1);
    Process p = RUN("run", directory, "--cache-dir", cache, "-t", "0", "-n", "3", "--ordered",
                    "--batch", file);
    assert_int_equal(p.status, 3);
    const char *second = strchr(p.out, '\n');
    assert_non_null(second);
    const char *error = strstr(p.out, "'<think>' is token");
    assert_non_null(error);
    assert_true(error < second);
    assert_null(strstr(second, "error\": {"));
    process_free(&p);
}

static void a_base_vocabulary_that_is_too_large_is_refused(void **state) {
    (void)state;
    char why[128];
    write_tokenizer(vocab_size + 1);
    snprintf(why, sizeof why, "the tokenizer has %zu tokens, but the model %zu", vocab_size + 3,
             vocab_size);
    assert_refused(RUN(GENERATE, "-i", "w1"), why);
    assert_refused(RUN("export", directory, file, "--force"), why);
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_model_runs_whose_added_tokens_have_no_embedding),
        cmocka_unit_test(a_prompt_with_such_a_token_is_refused_by_its_name),
        cmocka_unit_test(such_a_token_can_be_looked_at),
        cmocka_unit_test(one_line_of_a_batch_fails_alone),
        cmocka_unit_test(a_base_vocabulary_that_is_too_large_is_refused),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
