/* Tokenizers of other formats than tokenizer.json, with small vocabularies: llama2.c's, tiktoken's
 * lists, Tekken, GGUF's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "base/sha256.h"
#include "formats/tokenizers/tiktoken_lists.h"
#include "formats/tokenizers/tokenizer_gguf.h"
#include "formats/tokenizers/tokenizer_json.h"
#include "formats/tokenizers/tokenizer_plain.h"
#include "formats/tokenizers/tokenizer_tekken.h"
#include "tests/tokenizer_sources.h"
#include "tokenizer/tokenizer_section.h"

static void put_bytes(char **p, const void *bytes, size_t n) {
    memcpy(*p, bytes, n);
    *p += n;
}

static void put_llama2c(char **p, float score, const char *text) {
    int32_t n = (int32_t)strlen(text);
    put_bytes(p, &score, 4);
    put_bytes(p, &n, 4);
    put_bytes(p, text, (size_t)n);
}

/* A space is prefixed, the pair with the best score merges first, and unknown characters become
 * bytes. */
static void llama2c_encodes_and_decodes_as_its_run_c(void **state) {
    (void)state;
    char file[8192], *p = file, name[8];
    int32_t longest = 5;
    put_bytes(&p, &longest, 4);
    put_llama2c(&p, 0, "<unk>");
    put_llama2c(&p, 0, "\n<s>\n");
    put_llama2c(&p, 0, "\n</s>\n");
    for (int b = 0; b < 256; b++) {
        snprintf(name, sizeof name, "<0x%02X>", b);
        put_llama2c(&p, 0, name);
    }
    static const char *const pieces[] = {" ", "a", "b", "ab", " a", "ba", " ab"};
    for (size_t i = 0; i < 7; i++) put_llama2c(&p, -(float)i, pieces[i]);
    TokenizerBlob blob;
    Error error = {""};
    assert_int_equal(tokenizer_import_llama2c(file, (size_t)(p - file), 266, &blob, &error),
                     STATUS_OK);
    Tokenizer *t = source_tokenizer(&blob);
    source_assert_ids(t, "abba", 4, NULL, TOKENIZE_ADD_BOS, (int32_t[]){1, 265, 264}, 3);
    source_assert_ids(t, "", 0, NULL, 0, NULL, 0);
    source_assert_ids(t, "\xC3\xA9", 2, NULL, 0, (int32_t[]){259, 0xC3 + 3, 0xA9 + 3}, 3);
    char *decoded;
    size_t n;
    const int32_t ids[] = {1, 265, 264, 259, 0xC3 + 3, 0xA9 + 3, 1, 263};
    assert_int_equal(tokenizer_decode(t, ids, 8, TOKEN_DECODER_SKIP_SPECIAL, &decoded, &n, &error),
                     STATUS_OK);
    assert_string_equal(decoded, "abba \xC3\xA9"
                                 "a");
    free(decoded);
    assert_int_equal(tokenizer_decode(t, ids + 1, 1, TOKEN_DECODER_CONTINUE, &decoded, &n, &error),
                     STATUS_OK);
    assert_string_equal(decoded, " ab");
    free(decoded);
    tokenizer_close(t);
    tokenizer_blob_free(&blob);
}

/* Writes the lines of 256 bytes and returns their end. */
static char *tiktoken_bytes(char *p) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (int b = 0; b < 256; b++)
        p += sprintf(p, "%c%c== %d\n", digits[b >> 2], digits[(b & 3) << 4], b);
    return p;
}

static void tiktoken_merges_by_rank(void **state) {
    (void)state;
    char file[8192], *p = tiktoken_bytes(file);
    p += sprintf(p, "YWI= 256\nYmE= 257\nYWJhYg== 258\n"); /* ab, ba, abab */
    TokenizerSpecial special = {{"<|end|>", 7}, 259};
    TokenizerBlob blob;
    Error error = {""};
    assert_int_equal(tokenizer_import_tiktoken(file, (size_t)(p - file), "llama3", &special, 1, -1,
                                               259, &blob, &error),
                     STATUS_OK);
    Tokenizer *t = source_tokenizer(&blob);
    source_assert_ids(t, "ababa", 5, NULL, 0, (int32_t[]){258, 'a'}, 2);
    source_assert_ids(t, "bab ab", 6, NULL, 0, (int32_t[]){'b', 256, ' ', 256}, 4);
    source_assert_ids(t, "<|end|>", 7, NULL, TOKENIZE_PARSE_SPECIAL, (int32_t[]){259}, 1);
    size_t n;
    assert_int_equal(*tokenizer_eos(t, &n), 259);
    assert_int_equal(n, 1);
    tokenizer_close(t);
    tokenizer_blob_free(&blob);
}

/* "it's" is two words for cl100k's pattern and one for o200k's; "12" is one word, but two for
 * Qwen's. */
static void a_tiktoken_list_is_split_as_its_pattern_says(void **state) {
    (void)state;
    static const struct {
        const char *pattern;
        int32_t its[4], n_its, twelve[2], n_twelve;
    } cases[] = {{"llama3", {257, 258}, 2, {259}, 1},
                 {"cl100k_base", {257, 258}, 2, {259}, 1},
                 {"r50k_base", {257, 258}, 2, {259}, 1},
                 {"llama4", {256}, 1, {259}, 1},
                 {"o200k_base", {256}, 1, {259}, 1},
                 {"qwen", {257, 258}, 2, {'1', '2'}, 2},
                 {"[a-z']+|\\d", {256}, 1, {'1', '2'}, 2},
                 /* as in tiktoken, what no match covers has no token */
                 {"[a-z]+|1", {257, 's'}, 2, {'1'}, 1}};
    char file[8192], *p = tiktoken_bytes(file);
    p += sprintf(p, "aXQncw== 256\naXQ= 257\nJ3M= 258\nMTI= 259\n"); /* it's, it, 's, 12 */
    TokenizerBlob blob;
    Error error = {""};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(tokenizer_import_tiktoken(file, (size_t)(p - file), cases[i].pattern, NULL,
                                                   0, -1, -1, &blob, &error),
                         STATUS_OK);
        Tokenizer *t = source_tokenizer(&blob);
        source_assert_ids(t, "it's", 4, NULL, 0, cases[i].its, (size_t)cases[i].n_its);
        source_assert_ids(t, "12", 2, NULL, 0, cases[i].twelve, (size_t)cases[i].n_twelve);
        tokenizer_close(t);
        tokenizer_blob_free(&blob);
    }
    assert_int_equal(
        tokenizer_import_tiktoken(file, (size_t)(p - file), NULL, NULL, 0, -1, -1, &blob, &error),
        STATUS_FAILED);
    assert_non_null(strstr(error.text, "--split-pattern"));
    assert_non_null(strstr(error.text, "o200k_base"));
    assert_int_equal(
        tokenizer_import_tiktoken(file, (size_t)(p - file), "(", NULL, 0, -1, -1, &blob, &error),
        STATUS_FAILED);
    assert_true(tiktoken_list_begins(file, (size_t)(p - file)));
    static const char *const others[] = {"{}", "\n\x05\n\x03", "\x08", "IQ== x\n",
                                         "",   "IQ==",         "IQ== "};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_false(tiktoken_list_begins(others[i], strlen(others[i])));
}

/* PCRE2 10.42 takes characters after Unicode 14.0 for unassigned; the libraries know 16.0. */
static void characters_after_unicode_14_have_their_categories(void **state) {
    (void)state;
    static const struct {
        const char *text, *classes[4], *others[3];
    } cases[] = {
        {"\xE1\xB2\x89",
         {"\\p{Lu}", "\\p{L}", "\\w", "[^\\s\\p{N}]"},
         {"\\p{Ll}", "\\W", "\\P{L}"}},
        {"\xE1\xB2\x8A", {"\\p{Ll}", "\\p{L}", "\\w"}, {"\\p{Lu}", "\\p{C}", "\\p{Cn}"}},
        {"\xF0\x90\xB5\x80", {"\\p{Nd}", "\\d", "\\p{N}", "\\P{L}"}, {"\\p{L}", "\\D", "\\p{C}"}},
        {"\xE0\xA2\x97", {"\\p{Mn}", "\\p{M}", "\\w"}, {"\\p{L}", "\\P{M}", "[^\\w]"}},
        {"\xE1\xAD\x8E", {"\\p{Po}", "\\p{P}", "[^\\s\\p{L}]"}, {"\\w", "\\p{S}", "\\p{C}"}},
        {"\xF0\x9C\xB0\x80", {"\\p{So}", "\\p{S}", "\\P{C}"}, {"\\p{P}", "\\p{L}", "\\P{S}"}},
        {"\xF0\xB1\x8D\x90", {"\\p{Lo}", "\\p{Han}", "[\\p{L}\\p{M}]"}, {"\\p{Lu}", "\\P{Han}"}},
        /* a character assigned since Unicode 14.0 or earlier, and an unassigned one */
        {"\xC3\xA9", {"\\p{Ll}", "\\w", "\\P{C}"}, {"\\p{Lu}", "\\P{L}", "\\p{C}"}},
        {"\xF3\xA0\x82\x80", {"\\p{Cn}", "\\p{C}", "\\P{L}"}, {"\\w", "\\P{C}", "\\p{So}"}},
    };
    char file[8192], *end = tiktoken_bytes(file);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (size_t k = 0; k < 7; k++) {
            const char *pattern = k < 4 ? cases[i].classes[k] : cases[i].others[k - 4];
            TokenizerBlob blob;
            Error error = {""};
            TokenList ids = {0};
            if (!pattern) continue;
            if (tokenizer_import_tiktoken(file, (size_t)(end - file), pattern, NULL, 0, -1, -1,
                                          &blob, &error) != STATUS_OK)
                fail_msg("%s: %s", pattern, error.text);
            Tokenizer *t = source_tokenizer(&blob);
            size_t n = strlen(cases[i].text);
            assert_int_equal(tokenizer_encode(t, cases[i].text, n, NULL, 0, &ids, &error),
                             STATUS_OK);
            if (ids.length != (k < 4 ? n : 0)) fail_msg("text %zu, %s", i, pattern);
            token_list_free(&ids);
            tokenizer_close(t);
            tokenizer_blob_free(&blob);
        }
}

/* A tekken.json with 256 bytes and "ab" at rank 256; `tail` follows the vocabulary. */
static void tekken_text(char *out, const char *config, const char *tail) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char *p = out + sprintf(out, "{\"config\":{%s},\"vocab\":[", config);
    for (int b = 0; b < 256; b++)
        p += sprintf(p, "{\"rank\":%d,\"token_bytes\":\"%c%c==\",\"token_str\":null},", b,
                     digits[b >> 2], digits[(b & 3) << 4]);
    p += sprintf(p,
                 "{\"rank\":256,\"token_bytes\":\"YWI=\"},{\"rank\":257,\"token_bytes\":\"YmE=\"}");
    sprintf(p, "]%s}", tail);
}

#define TEKKEN_SIZES "\"default_vocab_size\":267,\"default_num_special_tokens\":10"
#define TEKKEN_PATTERN "\"pattern\":\"\\\\p{L}+|\\\\P{L}\""

static void tekken_puts_special_tokens_first(void **state) {
    (void)state;
    static const char config[] = TEKKEN_PATTERN "," TEKKEN_SIZES ",\"version\":\"v11\"";
    static const char specials[] =
        ",\"special_tokens\":[{\"rank\":0,\"token_str\":\"<unk>\",\"is_control\":true},"
        "{\"rank\":1,\"token_str\":\"<s>\",\"is_control\":true},"
        "{\"rank\":2,\"token_str\":\"</s>\",\"is_control\":true}]";
    char text[16384];
    TokenizerBlob blob;
    Error error = {""};
    size_t n;
    tekken_text(text, config, specials);
    assert_true(tokenizer_is_tekken(text, strlen(text)));
    if (tokenizer_import_tekken(text, strlen(text), &blob, &error) != STATUS_OK)
        fail_msg("%s", error.text);
    Tokenizer *t = source_tokenizer(&blob);
    /* Of "ab" and "ba" the latter is beyond the vocabulary's size. */
    source_assert_ids(t, "abba 1", 6, NULL, 0,
                      (int32_t[]){266, 10 + 'b', 10 + 'a', 10 + ' ', 10 + '1'}, 5);
    source_assert_ids(t, "<s>", 3, NULL, TOKENIZE_PARSE_SPECIAL, (int32_t[]){1}, 1);
    source_assert_ids(t, "<s>", 3, NULL, 0, (int32_t[]){10 + '<', 10 + 's', 10 + '>'}, 3);
    source_assert_ids(t, "<SPECIAL_9>", 11, NULL, TOKENIZE_PARSE_SPECIAL, (int32_t[]){9}, 1);
    assert_int_equal(tokenizer_vocab_size(t), 267);
    assert_int_equal(tokenizer_bos(t), 1);
    assert_int_equal(*tokenizer_eos(t, &n), 2);
    tokenizer_close(t);
    tokenizer_blob_free(&blob);
    static const char words[] = "{\"model\":{\"vocab\":{\"token_bytes\" : 5}}}";
    assert_false(tokenizer_is_tekken(words, sizeof words - 1));
}

static void a_tekken_that_lies_is_refused_by_name(void **state) {
    (void)state;
    static const struct {
        const char *config, *tail, *says;
    } wrong[] = {
        {TEKKEN_SIZES ",\"version\":\"v3\"", "", "pattern"},
        {TEKKEN_PATTERN ",\"default_vocab_size\":267", "", "default_num_special_tokens"},
        {TEKKEN_PATTERN ",\"default_vocab_size\":5,\"default_num_special_tokens\":10", "",
         "default_vocab_size"},
        {TEKKEN_PATTERN ",\"default_vocab_size\":1000,\"default_num_special_tokens\":10", "",
         "config asks for 990"},
        {TEKKEN_PATTERN ",\"default_vocab_size\":1e9,\"default_num_special_tokens\":10", "",
         "default_vocab_size"},
        {TEKKEN_PATTERN
         ",\"default_vocab_size\":267,\"default_num_special_tokens\":20,\"version\":\"v11\"",
         "", "'v11' without special_tokens"},
        {TEKKEN_PATTERN "," TEKKEN_SIZES ",\"version\":\"v3\"", "", "20 special tokens"},
        {TEKKEN_PATTERN "," TEKKEN_SIZES, ",\"special_tokens\":{}", "not a list"},
        {TEKKEN_PATTERN "," TEKKEN_SIZES, ",\"special_tokens\":[{\"rank\":10,\"token_str\":\"x\"}]",
         "special_tokens[0]"},
        {TEKKEN_PATTERN "," TEKKEN_SIZES,
         ",\"special_tokens\":[{\"rank\":1,\"token_str\":\"x\"},{\"rank\":1,\"token_str\":\"y\"}]",
         "stands for 'x' and for 'y'"},
        {TEKKEN_PATTERN ",\"default_vocab_size\":20,\"default_num_special_tokens\":10",
         ",\"special_tokens\":[]", "byte 10 has no token"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char text[16384];
        TokenizerBlob blob;
        Error error = {""};
        tekken_text(text, wrong[i].config, wrong[i].tail);
        assert_int_equal(tokenizer_import_tekken(text, strlen(text), &blob, &error), STATUS_FAILED);
        if (!strstr(error.text, wrong[i].says)) fail_msg("'%s': %s", wrong[i].says, error.text);
    }
}

static void sha256_is_that_of_the_standard(void **state) {
    (void)state;
    char text[120], hex[65];
    memset(text, 'a', sizeof text);
    sha256_text("abc", 3, hex);
    assert_string_equal(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    static const struct {
        size_t n;
        const char *hex;
    } cases[] = {
        {0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {55, "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318"},
        {56, "b35439a4ac6f0948b6d6f9e3c6af0f5f590ce20f1bde7090ef7970686ec6738a"},
        {63, "7d3e74a05d7db15bce4ad9ec0658ea98e3f06eeecf16b4c6fff2da457ddc2f34"},
        {64, "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb"},
        {119, "31eba51c313a5c08226adf18d4a359cfdfd8d2e816b13f4af952f7ea6584dcfb"},
        {120, "2f3d335432c70b580af0e8e1b3674a7c020d683aa5f73aaaedfdc55af904c21c"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sha256_text(text, cases[i].n, hex);
        assert_string_equal(hex, cases[i].hex);
    }
}

/* The test vectors of RFC 4648, section 10, and texts that Rust's base64 refuses (STANDARD.decode),
 * by which tokenizers reads a precompiled_charsmap. */
static void base64_is_that_of_the_standard(void **state) {
    (void)state;
    static const char *const both[][2] = {
        {"", ""},
        {"f", "Zg=="},
        {"fo", "Zm8="},
        {"foo", "Zm9v"},
        {"foob", "Zm9vYg=="},
        {"fooba", "Zm9vYmE="},
        {"foobar", "Zm9vYmFy"},
    };
    static const char *const wrong[] = {"Zg", "Zg=", "Zm9vY", "Zm=v", "====", "Zm9\n", "Zg==Zg=="};
    char text[16], bytes[16];
    size_t length;
    for (size_t i = 0; i < sizeof both / sizeof *both; i++) {
        size_t n = strlen(both[i][0]), n_text = strlen(both[i][1]);
        assert_int_equal(base64_encode(both[i][0], n, text), n_text);
        assert_memory_equal(text, both[i][1], n_text);
        assert_true(base64_decode(both[i][1], n_text, bytes, &length));
        assert_int_equal(length, n);
        assert_memory_equal(bytes, both[i][0], n);
    }
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        if (base64_decode(wrong[i], strlen(wrong[i]), bytes, &length)) fail_msg("%s", wrong[i]);
}

static void gguf_names_of_patterns_are_all_taken(void **state) {
    (void)state;
    static const char *const names[] = {"default",
                                        "gpt-2",
                                        "phi-2",
                                        "mpt",
                                        "olmo",
                                        "jais",
                                        "trillion",
                                        "starcoder",
                                        "refact",
                                        "command-r",
                                        "smollm",
                                        "codeshell",
                                        "exaone",
                                        "exaone4",
                                        "exaone-moe",
                                        "minerva-7b",
                                        "llama3",
                                        "llama-v3",
                                        "llama-bpe",
                                        "falcon3",
                                        "pixtral",
                                        "lfm2",
                                        "dbrx",
                                        "smaug-bpe",
                                        "glm4",
                                        "chatglm-bpe",
                                        "qwen2",
                                        "qwen35",
                                        "stablelm2",
                                        "hunyuan",
                                        "hunyuan-dense",
                                        "megrez",
                                        "grok-2",
                                        "tekken",
                                        "gpt-4o",
                                        "llama4",
                                        "minimax-m2",
                                        "kimi-k2",
                                        "youtu",
                                        "deepseek-llm",
                                        "deepseek-coder",
                                        "deepseek-v3",
                                        "deepseek-r1-qwen",
                                        "spark2_5",
                                        "afmoe",
                                        "falcon",
                                        "bloom",
                                        "poro-chat",
                                        "gpt3-finnish",
                                        "viking",
                                        "chameleon",
                                        "jais-2",
                                        "bailingmoe",
                                        "seed-coder",
                                        "superbpe",
                                        "gemma4",
                                        "whitespace",
                                        "tiny_aya",
                                        "laguna",
                                        "minicpm5",
                                        "ufakzeka",
                                        "jina-v2-code",
                                        "roberta-bpe",
                                        "gigachat",
                                        "granite-docling"};
    static const TokenizerString tokens[] = {{"a", 1}, {"b", 1}, {"ab", 2}, {"<0x0A>", 6}};
    static const TokenizerString merges[] = {{"a b", 3}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        TokenizerGguf g = TOKENIZER_GGUF_NONE;
        TokenizerBlob blob;
        Error error = {""};
        g.model = (TokenizerString){"gpt2", 4};
        g.pre = (TokenizerString){names[i], strlen(names[i])};
        g.tokens = tokens;
        g.n_tokens = 4;
        g.merges = merges;
        g.n_merges = 1;
        if (tokenizer_import_gguf(&g, &blob, &error) != STATUS_OK)
            fail_msg("%s: %s", names[i], error.text);
        Tokenizer *t = source_tokenizer(&blob);
        source_assert_ids(t, "ab", 2, NULL, 0, (int32_t[]){2}, 1);
        tokenizer_close(t);
        tokenizer_blob_free(&blob);
    }
    TokenizerGguf g = TOKENIZER_GGUF_NONE;
    TokenizerBlob blob;
    Error error = {""};
    g.model = (TokenizerString){"gpt2", 4};
    g.pre = (TokenizerString){"no-such-name", 12};
    g.tokens = tokens;
    g.n_tokens = 4;
    assert_int_equal(tokenizer_import_gguf(&g, &blob, &error), STATUS_FAILED);
    assert_non_null(strstr(error.text, "no-such-name"));
}

/* Qwen's and Command R's tokenizer.json normalize text to NFC, which no key of GGUF says. */
static void gguf_names_stand_for_the_normalizer_of_their_tokenizer(void **state) {
    (void)state;
    static const struct {
        const char *name;
        bool composes;
    } cases[] = {{"qwen2", true},
                 {"qwen35", true},
                 {"command-r", true},
                 {"llama-bpe", false},
                 {"starcoder", false}};
    /* e, the two bytes of U+0301, the two of U+00E9, and all of that as ByteLevel writes it */
    static const TokenizerString tokens[] = {
        {"e", 1}, {"\xC3\x8C", 2}, {"\xC4\xA3", 2}, {"\xC3\x83", 2}, {"\xC2\xA9", 2}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        TokenizerGguf g = TOKENIZER_GGUF_NONE;
        TokenizerBlob blob;
        Error error = {""};
        g.model = (TokenizerString){"gpt2", 4};
        g.pre = (TokenizerString){cases[i].name, strlen(cases[i].name)};
        g.tokens = tokens;
        g.n_tokens = 5;
        assert_int_equal(tokenizer_import_gguf(&g, &blob, &error), STATUS_OK);
        Tokenizer *t = source_tokenizer(&blob);
        if (cases[i].composes)
            source_assert_ids(t, "e\xCC\x81", 3, NULL, 0, (int32_t[]){3, 4}, 2);
        else
            source_assert_ids(t, "e\xCC\x81", 3, NULL, 0, (int32_t[]){0, 1, 2}, 3);
        tokenizer_close(t);
        tokenizer_blob_free(&blob);
    }
}

/* In a vocabulary of channels <|end|> ends one, and the answer goes on. */
static void a_channel_that_ends_does_not_end_the_text_of_a_gguf(void **state) {
    (void)state;
    static const TokenizerString tokens[] = {
        {"a", 1}, {"<|end|>", 7}, {"<|return|>", 10}, {"<|call|>", 8}, {"<|channel|>", 11}};
    static const int32_t types[] = {1, 3, 3, 3, 3};
    for (size_t n_tokens = 2; n_tokens <= 5; n_tokens += 3) {
        TokenizerGguf g = TOKENIZER_GGUF_NONE;
        TokenizerBlob blob;
        Error error = {""};
        size_t n;
        g.model = (TokenizerString){"gpt2", 4};
        g.pre = (TokenizerString){"gpt-4o", 6};
        g.tokens = tokens;
        g.token_types = types;
        g.n_tokens = n_tokens;
        if (tokenizer_import_gguf(&g, &blob, &error) != STATUS_OK) fail_msg("%s", error.text);
        Tokenizer *t = source_tokenizer(&blob);
        const int32_t *eos = tokenizer_eos(t, &n);
        assert_int_equal(n, n_tokens == 2 ? 1 : 2);
        assert_int_equal(eos[0], n_tokens == 2 ? 1 : 2);
        tokenizer_close(t);
        tokenizer_blob_free(&blob);
    }
}

/* A vocabulary of names with a space between two; ids count from 0, and all are plain tokens. */
static Tokenizer *named_vocabulary(const char *names, const char *pre, TokenizerGguf *g,
                                   TokenizerBlob *blob) {
    TokenizerString tokens[16];
    Error error = {""};
    g->n_tokens = 0;
    for (const char *p = names; *p; p += strspn(p, " ")) {
        size_t n = strcspn(p, " ");
        tokens[g->n_tokens++] = (TokenizerString){p, n};
        p += n;
    }
    g->model = (TokenizerString){"gpt2", 4};
    g->pre = (TokenizerString){pre, strlen(pre)};
    g->tokens = tokens;
    if (tokenizer_import_gguf(g, blob, &error) != STATUS_OK) fail_msg("%s", error.text);
    return source_tokenizer(blob);
}

/* Which tokens end a text: llama.cpp's rules (llama-vocab.cpp of llama-cpp-python 0.3.36, "EOG"),
 * ik_llama.cpp's are the same without "[e~[". */
static void the_tokens_that_end_a_text_are_those_of_llama_cpp(void **state) {
    (void)state;
    static const struct {
        const char *names;
        int32_t eos, listed; /* tokenizer.ggml.eos_token_id, and the only one of eos_token_ids */
        const char *ends;    /* a digit for each id */
    } cases[] = {
        {"a <eos> <turn|> <|tool_response> b", -1, -1, "123"},
        {"a [EOS] [EOT] [e~[", -1, -1, "123"},
        {"a </s> b", -1, -1, "1"},
        {"a <\xEF\xBD\x9C"
         "end\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C> b",
         -1, -1, "1"},
        /* Gemma 4 and PLaMo have a plain </s>. */
        {"a </s> <|tool_response>", -1, -1, "2"},
        {"a </s> <|plamo:eos|>", 2, -1, "2"},
        {"a </s> <|plamo:eos|>", 0, -1, "01"},
        /* GPT-OSS and Solar: <|end|> ends a channel, even where a key names it. */
        {"a <|end|> <|return|> <|call|> <|endoftext|>", 1, 1, "234"},
        {"a <|end|> <|flush|> <|calls|>", 1, -1, "23"},
        {"a <|end|> <|flush|> b", 1, -1, "12"},
        {"a <|end|> <|calls|>", -1, -1, "12"},
        /* Filling in the middle: the first of each kind. */
        {"a <|fim_pad|> <|repo_name|> <|file_sep|> <|fim_prefix|>", -1, -1, "123"},
        {"a <PAD> [PAD] <reponame> <REPO>", -1, -1, "13"},
        /* ollama's list */
        {"a b c", 1, 2, "12"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        TokenizerGguf g = TOKENIZER_GGUF_NONE;
        TokenizerBlob blob;
        char found[17] = "";
        size_t n, length = 0;
        g.eos_id = cases[i].eos;
        g.eos_ids = &cases[i].listed;
        g.n_eos_ids = cases[i].listed >= 0;
        Tokenizer *t = named_vocabulary(cases[i].names, "gpt-4o", &g, &blob);
        const int32_t *eos = tokenizer_eos(t, &n);
        for (int32_t id = 0; id < (int32_t)g.n_tokens; id++)
            for (size_t k = 0; k < n; k++)
                if (eos[k] == id) found[length++] = (char)('0' + id);
        found[length] = '\0';
        if (strcmp(found, cases[i].ends) != 0)
            fail_msg("%s: %s end a text, not %s", cases[i].names, found, cases[i].ends);
        tokenizer_close(t);
        tokenizer_blob_free(&blob);
    }
}

/* Gemma 4's converter wrote add_bos_token false; its texts begin with BOS all the same (llama.cpp's
 * issue 21500; ollama and ik_llama.cpp do the same). */
static void gemma4_begins_with_bos_whatever_the_file_says(void **state) {
    (void)state;
    for (int other = 0; other < 2; other++) {
        TokenizerGguf g = TOKENIZER_GGUF_NONE;
        TokenizerBlob blob;
        g.bos_id = 1;
        g.add_bos = 0;
        Tokenizer *t = named_vocabulary("a <bos> b", other ? "gpt-4o" : "gemma4", &g, &blob);
        assert_int_equal(tokenizer_adds_bos(t), !other);
        tokenizer_close(t);
        tokenizer_blob_free(&blob);
    }
}

/* llama.cpp's converter gives rows of the vocabulary beyond the tokenizer the names [PAD...] and
 * the type "unused", of which llama_vocab::impl::token_to_piece (llama.cpp) makes no text. Older
 * ones gave them the type "user-defined": their name is their text. */
static void unused_tokens_of_a_gguf_have_no_text(void **state) {
    (void)state;
    static const TokenizerString tokens[] = {{"a", 1}, {"[PAD1]", 6}, {"b", 1}, {"[PAD3]", 6}};
    static const int32_t types[2][4] = {{1, 5, 1, 5}, {1, 4, 1, 0}};
    static const char *const texts[2] = {"ab", "a[PAD1]b"};
    for (int spm = 0; spm < 2; spm++)
        for (int i = 0; i < 2; i++) {
            static const float scores[4] = {0};
            TokenizerGguf g = TOKENIZER_GGUF_NONE;
            TokenizerBlob blob;
            Error error = {""};
            char *text;
            size_t n;
            g.model = spm ? (TokenizerString){"llama", 5} : (TokenizerString){"gpt2", 4};
            g.pre = (TokenizerString){"gpt-2", 5};
            g.tokens = tokens;
            g.token_types = types[i];
            g.scores = scores;
            g.n_tokens = 4;
            if (tokenizer_import_gguf(&g, &blob, &error) != STATUS_OK) fail_msg("%s", error.text);
            Tokenizer *t = source_tokenizer(&blob);
            assert_int_equal(tokenizer_decode(t, (int32_t[]){0, 1, 2, 3}, 4, 0, &text, &n, &error),
                             STATUS_OK);
            assert_string_equal(text, texts[i]);
            tokenizer_token_text(t, 1, &n);
            assert_int_equal(n, 6); /* its name, which no text leads to */
            free(text);
            tokenizer_close(t);
            tokenizer_blob_free(&blob);
        }
}

/* Byte 0xF1 and <|endoftext|> stand for what StarCoder's GGUF vocabulary does to them: the byte has
 * no token, and the unknown token is the one that ends a text. */
static void unknown_bytes_never_become_a_special_token(void **state) {
    (void)state;
    static const TokenizerString tokens[] = {
        {"<|endoftext|>", 13}, {"a", 1}, {"\xC4\xA2", 2} /* byte 0x80 */, {"<0x62>", 6}};
    static const int32_t types[] = {3, 1, 1, 3};
    static const char text[] = "a\xF1\x80\x80\x80"
                               "ab";
    for (int plain = 0; plain < 2; plain++) {
        TokenizerGguf g = TOKENIZER_GGUF_NONE;
        TokenizerBlob blob;
        Error error = {""};
        g.model = (TokenizerString){"gpt2", 4};
        g.pre = plain ? (TokenizerString){"whitespace", 10} : (TokenizerString){"starcoder", 9};
        g.tokens = tokens;
        g.token_types = types;
        g.n_tokens = 4;
        g.unk_id = g.bos_id = g.eos_id = 0;
        if (tokenizer_import_gguf(&g, &blob, &error) != STATUS_OK) fail_msg("%s", error.text);
        Tokenizer *t = source_tokenizer(&blob);
        /* "b" has a byte token (plain) that the file calls a control token. */
        if (plain)
            source_assert_ids(t, text, sizeof text - 1, NULL, 0, (int32_t[]){1, 1}, 2);
        else
            source_assert_ids(t, text, sizeof text - 1, NULL, 0, (int32_t[]){1, 2, 2, 2, 1}, 5);
        tokenizer_close(t);
        tokenizer_blob_free(&blob);
    }
}

/* The unknown token of these models is special, and unknown text becomes it only where it is not
 * part of a text's structure. */
static void only_a_true_unknown_token_stands_for_unknown_text(void **state) {
    (void)state;
    static const struct {
        const char *name;
        bool stands;
    } cases[] = {{"<unk>", true}, {"[UNK]", true}, {"</s>", false}, {"<|im_start|>", false}};
    static const char *const models[] = {
        "{\"type\":\"BPE\",\"unk_token\":\"%s\",\"vocab\":{\"%s\":0,\"a\":1},\"merges\":[]}",
        "{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"%.0s%s\",0],[\"a\",-1]]}",
        "{\"type\":\"WordLevel\",\"unk_token\":\"%s\",\"vocab\":{\"%s\":0,\"a\":1}}"};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (size_t m = 0; m < 3; m++) {
            char model[300], text[600];
            Error error = {""};
            TokenizerBlob blob;
            snprintf(model, sizeof model, models[m], cases[i].name, cases[i].name);
            snprintf(text, sizeof text,
                     "{\"added_tokens\":[{\"id\":0,\"content\":\"%s\",\"special\":true}],"
                     "\"model\":%s}",
                     cases[i].name, model);
            if (tokenizer_import_json(text, strlen(text), NULL, 0, &blob, &error) != STATUS_OK)
                fail_msg("%s: %s", text, error.text);
            Tokenizer *t = source_tokenizer(&blob);
            TokenList ids = {0};
            tokenizer_encode(t, "z", 1, NULL, 0, &ids, &error);
            assert_int_equal(ids.length, cases[i].stands ? 1 : 0);
            token_list_free(&ids);
            tokenizer_close(t);
            tokenizer_blob_free(&blob);
        }
    }
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(llama2c_encodes_and_decodes_as_its_run_c),
        cmocka_unit_test(tiktoken_merges_by_rank),
        cmocka_unit_test(a_tiktoken_list_is_split_as_its_pattern_says),
        cmocka_unit_test(characters_after_unicode_14_have_their_categories),
        cmocka_unit_test(tekken_puts_special_tokens_first),
        cmocka_unit_test(a_tekken_that_lies_is_refused_by_name),
        cmocka_unit_test(sha256_is_that_of_the_standard),
        cmocka_unit_test(base64_is_that_of_the_standard),
        cmocka_unit_test(gguf_names_of_patterns_are_all_taken),
        cmocka_unit_test(gguf_names_stand_for_the_normalizer_of_their_tokenizer),
        cmocka_unit_test(a_channel_that_ends_does_not_end_the_text_of_a_gguf),
        cmocka_unit_test(the_tokens_that_end_a_text_are_those_of_llama_cpp),
        cmocka_unit_test(gemma4_begins_with_bos_whatever_the_file_says),
        cmocka_unit_test(unused_tokens_of_a_gguf_have_no_text),
        cmocka_unit_test(unknown_bytes_never_become_a_special_token),
        cmocka_unit_test(only_a_true_unknown_token_stands_for_unknown_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
