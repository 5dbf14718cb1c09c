/* Tests with the vocabularies of ../shared/data/tokenizers, where they are present: the ids of each
 * .inp file, and the promised speeds.
 *
 * With arguments it is a driver for tests/fixtures/tokenizer_differential.py:
 *     test_tokenizer_shared KIND PATH   reads frames of (uint32 flags, uint32 length, bytes) from
 *                                       stdin, writes (uint32 n, ids, uint32 length, decoded)
 *     test_tokenizer_shared KIND PATH TEXT   prints the speed of encoding TEXT
 *     test_tokenizer_shared KIND PATH --section   writes the section */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include "base/address_sanitizer.h"
#include "formats/tokenizers/tokenizer_file.h"
#include "tests/tier.h"
#include "tokenizer_sources.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* The speeds are promised for optimized code; sanitizers take many times as long. */
#if ADDRESS_SANITIZER || !defined __OPTIMIZE__
enum { PATIENCE = 20 };
#else
enum { PATIENCE = 1 };
#endif

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

typedef struct Loaded {
    TokenizerBlob blob;
    Tokenizer *tokenizer;
} Loaded;

static void load(Loaded *l, const char *kind, const char *path) {
    Error error = {""};
    if (source_import(kind, path, &l->blob, &error) != STATUS_OK ||
        tokenizer_open(&l->tokenizer, l->blob.bytes, l->blob.size, &error) != STATUS_OK) {
        fprintf(stderr, "%s: %s\n", path, error.text);
        exit(1);
    }
}

static void unload(Loaded *l) {
    tokenizer_close(l->tokenizer);
    tokenizer_blob_free(&l->blob);
}

/* ---- The pairs ---- */

static const char separator[] = "\n__ggml_vocab_test__\n";

static void check_pair(const char *name) {
    char file[128];
    size_t inp_size, out_size, line = 0;
    Error error = {""};
    Loaded l;
    snprintf(file, sizeof file, "tokenizers/%s.gguf", name);
    const char *path = shared_path(file);
    if (!path) {
        print_message("%s is absent: skipped\n", file);
        skip();
    }
    load(&l, "gguf", path);
    snprintf(file, sizeof file, "tokenizers/%s.inp", name);
    char *inp = source_read(shared_path(file), &inp_size);
    snprintf(file, sizeof file, "tokenizers/%s.out", name);
    char *out = source_read(shared_path(file), &out_size);
    assert_non_null(inp);
    assert_non_null(out);
    char *expected = out;
    for (char *text = inp; text; line++) {
        char *end = strstr(text, separator), *next = end ? end + strlen(separator) : NULL;
        size_t n = end ? (size_t)(end - text) : strlen(text);
        TokenList ids = {0};
        assert_int_equal(tokenizer_encode(l.tokenizer, text, n, NULL, 0, &ids, &error), STATUS_OK);
        char *newline = strchr(expected, '\n');
        if (newline) *newline = 0;
        char *p = expected;
        for (size_t i = 0; i < ids.length; i++) {
            char *after;
            long id = strtol(p, &after, 10);
            if (after == p || id != ids.ids[i])
                fail_msg("%s, text %zu: id %zu is %d", name, line, i, ids.ids[i]);
            p = after;
        }
        if (strspn(p, " ") != strlen(p)) fail_msg("%s, text %zu: ids are missing", name, line);
        token_list_free(&ids);
        expected = newline ? newline + 1 : expected + strlen(expected);
        text = next;
    }
    assert_true(line > 40);
    free(inp);
    free(out);
    unload(&l);
}

static void ids_of_gpt_2_are_as_expected(void **state) {
    (void)state, check_pair("gpt-2");
}
static void ids_of_llama_spm_are_as_expected(void **state) {
    (void)state, check_pair("llama-spm");
}
static void ids_of_mpt_are_as_expected(void **state) {
    (void)state, check_pair("mpt");
}
static void ids_of_phi_3_are_as_expected(void **state) {
    (void)state, check_pair("phi-3");
}
static void ids_of_refact_are_as_expected(void **state) {
    (void)state, check_pair("refact");
}

/* Meta calls its list tokenizer.model: the name says nothing, the content does. */
static void a_public_list_has_the_tokens_of_its_model(void **state) {
    (void)state;
    const char *path = shared_path("tokenizers/llama3.tiktoken");
    static const char text[] = "<|begin_of_text|>it's 12345";
    static const int32_t expected[] = {128000, 275, 596, 220, 4513, 1774};
    Error error = {""};
    TokenList ids = {0};
    Loaded l;
    if (!path) {
        print_message("llama3.tiktoken is absent: skipped\n");
        skip();
    }
    InputFile file;
    assert_int_equal(input_open(&file, path, &error), STATUS_OK);
    free(file.path);
    file.path = strdup("tokenizer.model");
    if (tokenizer_from_file(&file, NULL, 0, &l.blob, &error) != STATUS_OK ||
        tokenizer_open(&l.tokenizer, l.blob.bytes, l.blob.size, &error) != STATUS_OK)
        fail_msg("%s", error.text);
    input_close(&file);
    assert_int_equal(tokenizer_encode(l.tokenizer, text, sizeof text - 1, NULL,
                                      TOKENIZE_PARSE_SPECIAL, &ids, &error),
                     STATUS_OK);
    assert_int_equal(ids.length, 6);
    assert_memory_equal(ids.ids, expected, sizeof expected);
    assert_int_equal(tokenizer_bos(l.tokenizer), 128000);
    token_list_free(&ids);
    unload(&l);
}

/* ---- Time ---- */

/* Processor time, which a busy machine does not stretch. */
static double encode_time(Tokenizer *t, const char *text, size_t n) {
    Error error = {""};
    TokenList ids = {0};
    double start = now();
    if (tokenizer_encode(t, text, n, NULL, 0, &ids, &error) != STATUS_OK)
        fail_msg("%s", error.text);
    double time = now() - start;
    token_list_free(&ids);
    return time;
}

static const struct {
    const char *kind, *file;
} vocabularies[] = {{"gguf", "tokenizers/gpt-2.gguf"},
                    {"gguf", "tokenizers/llama-spm.gguf"},
                    {"gguf", "tokenizers/mpt.gguf"},
                    {"gguf", "tokenizers/phi-3.gguf"},
                    {"gguf", "tokenizers/refact.gguf"},
                    {"json", "tokenizers/smollm2.tokenizer.json"},
                    {"tiktoken", "tokenizers/llama3.tiktoken"},
                    {"spm", "tokenizers/mistral-v3.spm.model"},
                    {"llama2c", "tokenizers/llama2c-32000.bin"}};

static void a_megabyte_of_one_letter_or_of_spaces_takes_under_a_second(void **state) {
    (void)state;
    size_t n = 1 << 20;
    char *text = malloc(n + 1);
    static const char letters[] = "a \n7!";
    const size_t n_letters = sizeof letters - 1;
    for (size_t i = 0; i < sizeof vocabularies / sizeof *vocabularies * n_letters; i++) {
        Loaded l;
        const size_t v = i / n_letters;
        const char c = letters[i % n_letters], *path = shared_path(vocabularies[v].file);
        if (!path || !tier_takes(i, 46, 6)) continue;
        load(&l, vocabularies[v].kind, path);
        memset(text, c, n);
        double time = encode_time(l.tokenizer, text, n);
        text[n] = 'x';
        double with_end = encode_time(l.tokenizer, text, n + 1);
        if (time > PATIENCE || with_end > PATIENCE)
            fail_msg("%s: a megabyte of '%c': %.2f s, %.2f s", vocabularies[v].file, c, time,
                     with_end);
        unload(&l);
    }
    free(text);
}

static void a_large_vocabulary_is_ready_in_10_ms(void **state) {
    (void)state;
    const char *path = shared_path("tokenizers/llama3.tiktoken");
    Error error = {""};
    Loaded l;
    if (!path) {
        print_message("llama3.tiktoken is absent: skipped\n");
        skip();
    }
    load(&l, "tiktoken", path);
    double best = 1;
    for (int i = 0; i < 5; i++) {
        Tokenizer *again;
        double start = now();
        assert_int_equal(tokenizer_open(&again, l.blob.bytes, l.blob.size, &error), STATUS_OK);
        double time = now() - start;
        if (time < best) best = time;
        tokenizer_close(again);
    }
    print_message("128,000 tokens open in %.2f ms\n", best * 1e3);
    assert_true(best < 0.010 * PATIENCE);
    unload(&l);
}

/* Refact's vocabulary has no token for byte 0xF1, and its unknown token is <|endoftext|>. */
static void characters_of_refact_without_a_token_do_not_end_the_text(void **state) {
    (void)state;
    Loaded l;
    Error error = {""};
    TokenList ids = {0};
    const char *path = shared_path("tokenizers/refact.gguf");
    if (!path) skip();
    load(&l, "gguf", path);
    assert_int_equal(tokenizer_encode(l.tokenizer, "\xF1\x80\x80\x80", 4, NULL, 0, &ids, &error),
                     STATUS_OK);
    assert_int_equal(ids.length, 3);
    for (size_t i = 0; i < ids.length; i++)
        assert_false(tokenizer_is_special(l.tokenizer, ids.ids[i]));
    token_list_free(&ids);
    unload(&l);
}

static void texts_decode_to_themselves(void **state) {
    (void)state;
    Error error = {""};
    size_t n;
    const char *path = shared_path("text/war-and-peace.txt");
    if (!path) {
        print_message("war-and-peace.txt is absent: skipped\n");
        skip();
    }
    char *text = source_read(path, &n);
    for (size_t v = 0; v < sizeof vocabularies / sizeof *vocabularies; v++) {
        Loaded l;
        TokenList ids = {0};
        char *decoded;
        size_t length;
        if (!tier_takes(v, 16, 1) || !(path = shared_path(vocabularies[v].file))) continue;
        load(&l, vocabularies[v].kind, path);
        assert_int_equal(tokenizer_encode(l.tokenizer, text, n, NULL, 0, &ids, &error), STATUS_OK);
        assert_int_equal(
            tokenizer_decode(l.tokenizer, ids.ids, ids.length, 0, &decoded, &length, &error),
            STATUS_OK);
        assert_int_equal(length, n);
        assert_memory_equal(decoded, text, n);
        free(decoded);
        token_list_free(&ids);
        unload(&l);
    }
    free(text);
}

/* ---- The driver ---- */

static int serve(const char *kind, const char *path) {
    Loaded l;
    uint32_t head[2];
    load(&l, kind, path);
    while (fread(head, 4, 2, stdin) == 2) {
        char *text = malloc(head[1] + 1), *decoded;
        Error error = {""};
        TokenList ids = {0};
        size_t length;
        if (fread(text, 1, head[1], stdin) != head[1]) return 1;
        if (tokenizer_encode(l.tokenizer, text, head[1], NULL, head[0] & 7, &ids, &error) !=
                STATUS_OK ||
            tokenizer_decode(l.tokenizer, ids.ids, ids.length, head[0] >> 8, &decoded, &length,
                             &error) != STATUS_OK) {
            fprintf(stderr, "%s\n", error.text);
            return 1;
        }
        uint32_t n = (uint32_t)ids.length, m = (uint32_t)length;
        fwrite(&n, 4, 1, stdout);
        fwrite(ids.ids, 4, n, stdout);
        fwrite(&m, 4, 1, stdout);
        fwrite(decoded, 1, m, stdout);
        fflush(stdout);
        free(text);
        free(decoded);
        token_list_free(&ids);
    }
    unload(&l);
    return 0;
}

static int write_section(const char *kind, const char *path) {
    Loaded l;
    load(&l, kind, path);
    fwrite(l.blob.bytes, 1, l.blob.size, stdout);
    unload(&l);
    return 0;
}

static int speed(const char *kind, const char *path, const char *text_path) {
    Loaded l;
    size_t n;
    char *text = source_read(text_path, &n);
    if (!text) return 1;
    load(&l, kind, path);
    double best = 1e9;
    for (int i = 0; i < 5; i++) {
        double time = encode_time(l.tokenizer, text, n);
        printf("%.1f ", (double)n / time * 1e-6);
        if (time < best) best = time;
    }
    printf("best %.2f MB/s\n", (double)n / best * 1e-6);
    free(text);
    unload(&l);
    return 0;
}

int main(int argc, char **argv) {
    if (argc == 3) return serve(argv[1], argv[2]);
    if (argc == 4 && !strcmp(argv[3], "--section")) return write_section(argv[1], argv[2]);
    if (argc == 4) return speed(argv[1], argv[2], argv[3]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_of_gpt_2_are_as_expected),
        cmocka_unit_test(ids_of_llama_spm_are_as_expected),
        cmocka_unit_test(ids_of_mpt_are_as_expected),
        cmocka_unit_test(ids_of_phi_3_are_as_expected),
        cmocka_unit_test(ids_of_refact_are_as_expected),
        cmocka_unit_test(a_public_list_has_the_tokens_of_its_model),
        cmocka_unit_test(characters_of_refact_without_a_token_do_not_end_the_text),
        cmocka_unit_test(texts_decode_to_themselves),
        cmocka_unit_test(a_large_vocabulary_is_ready_in_10_ms),
        cmocka_unit_test(a_megabyte_of_one_letter_or_of_spaces_takes_under_a_second),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
