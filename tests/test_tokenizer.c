/* The tokenizer without the files of ../shared: compares every component of tokenizer.json with
 * results of the tokenizers library (tests/fixtures/tokenizers.json and tokenizer_models.json, made
 * by tokenizer_components.py); tests the other formats with small vocabularies, special tokens,
 * streams of ids, and damaged sections. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include "base/unicode.h"
#include "formats/sha256.h"
#include "formats/tiktoken_lists.h"
#include "tokenizer_section.h"
#include "tokenizer_sources.h"
#include "session/versions.h"
#include <jansson.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static Tokenizer *open_blob(const TokenizerBlob *blob) {
    Error error = {""};
    Tokenizer *tokenizer;
    if (tokenizer_open(&tokenizer, blob->bytes, blob->size, &error) != STATUS_OK)
        fail_msg("%s", error.text);
    return tokenizer;
}

/* ---- Against the library ---- */

static Status import_value(const json_t *value, TokenizerBlob *blob, Error *error) {
    char *text = json_dumps(value, 0);
    Status status = tokenizer_import_json(text, strlen(text), NULL, 0, blob, error);
    free(text);
    return status;
}

static json_t *assemble(const json_t *bases, const json_t *entry) {
    json_t *whole = json_object();
    const char *base = json_string_value(json_object_get(entry, "base"));
    json_object_update(whole, json_object_get(entry, "parts"));
    json_object_set(whole, "model", json_object_get(bases, base));
    return whole;
}

static void check_ids(const char *name, const char *text, const TokenList *ids,
                      const json_t *expected) {
    bool same = ids->length == json_array_size(expected);
    for (size_t i = 0; same && i < ids->length; i++)
        same = ids->ids[i] == json_integer_value(json_array_get(expected, i));
    if (same) return;
    print_message("%s: '%s'\n ours:  ", name, text);
    for (size_t i = 0; i < ids->length; i++) print_message(" %d", ids->ids[i]);
    print_message("\n theirs:");
    for (size_t i = 0; i < json_array_size(expected); i++)
        print_message(" %d", (int)json_integer_value(json_array_get(expected, i)));
    fail_msg("ids differ");
}

static void check_case(const char *name, Tokenizer *tokenizer, const json_t *texts,
                       const json_t *one) {
    const json_t *text = json_array_get(texts, (size_t)json_integer_value(json_array_get(one, 0)));
    const json_t *back = json_array_get(one, 3);
    if (!json_is_string(back)) back = text; /* it decodes to itself */
    int flags = (int)json_integer_value(json_array_get(one, 1));
    Error error = {""};
    TokenList ids = {0};
    char *decoded;
    size_t length;
    if (tokenizer_encode(tokenizer, json_string_value(text), json_string_length(text), NULL,
                         flags & 1 ? TOKENIZE_PARSE_SPECIAL : 0, &ids, &error) != STATUS_OK)
        fail_msg("%s: %s", name, error.text);
    check_ids(name, json_string_value(text), &ids, json_array_get(one, 2));
    unsigned how = flags & 2 ? TOKEN_DECODER_SKIP_SPECIAL : 0;
    assert_int_equal(
        tokenizer_decode(tokenizer, ids.ids, ids.length, how, &decoded, &length, &error),
        STATUS_OK);
    TextBuffer repaired = {0}; /* the library gives U+FFFD for bytes that are not UTF-8 */
    utf8_put_repaired(&repaired, decoded, length);
    if (ids.length > 0 && (repaired.length != json_string_length(back) ||
                           memcmp(repaired.bytes, json_string_value(back), repaired.length) != 0))
        fail_msg("%s: '%s' decodes to '%s', not '%s'", name, json_string_value(text), decoded,
                 json_string_value(back));
    text_free(&repaired);
    free(decoded);
    token_list_free(&ids);
}

static void check_ends(const char *name, Tokenizer *tokenizer, const json_t *expected) {
    Error error = {""};
    TokenList ids = {0};
    assert_int_equal(tokenizer_encode(tokenizer, "hello", 5, NULL,
                                      TOKENIZE_ADD_BOS | TOKENIZE_ADD_EOS, &ids, &error),
                     STATUS_OK);
    check_ids(name, "hello", &ids, expected);
    token_list_free(&ids);
}

static size_t check_fixture(const char *path) {
    json_error_t why;
    json_t *fixture = json_load_file(path, JSON_ALLOW_NUL, &why);
    if (!fixture) fail_msg("%s:%d: %s", path, why.line, why.text);
    const json_t *bases = json_object_get(fixture, "bases");
    const json_t *entries = json_object_get(fixture, "entries");
    size_t n_cases = 0;
    for (size_t i = 0; i < json_array_size(entries); i++) {
        const json_t *entry = json_array_get(entries, i), *cases = json_object_get(entry, "cases");
        const char *name = json_string_value(json_object_get(entry, "name"));
        Error error = {""};
        TokenizerBlob blob;
        json_t *whole = assemble(bases, entry);
        if (import_value(whole, &blob, &error) != STATUS_OK) fail_msg("%s: %s", name, error.text);
        json_decref(whole);
        Tokenizer *tokenizer = open_blob(&blob);
        for (size_t c = 0; c < json_array_size(cases); c++, n_cases++)
            check_case(name, tokenizer, json_object_get(fixture, "texts"),
                       json_array_get(cases, c));
        const json_t *ends = json_object_get(entry, "with_ends");
        if (json_is_array(ends)) check_ends(name, tokenizer, ends);
        tokenizer_close(tokenizer);
        tokenizer_blob_free(&blob);
    }
    print_message("%s: %zu tokenizers, %zu texts\n", path, json_array_size(entries), n_cases);
    json_decref(fixture);
    return n_cases;
}

static void every_step_gives_the_words_of_the_library(void **state) {
    (void)state;
    assert_true(check_fixture("tests/fixtures/tokenizers.json") > 800);
}

static void every_model_gives_the_ids_and_texts_of_the_library(void **state) {
    (void)state;
    assert_true(check_fixture("tests/fixtures/tokenizer_models.json") > 500);
}

/* ---- A small tokenizer.json of our own ---- */

static const char small_json[] =
    "{\"added_tokens\":["
    "{\"id\":300,\"content\":\"<|im_start|>\",\"special\":true,\"normalized\":false},"
    "{\"id\":301,\"content\":\"<think>\",\"special\":false,\"normalized\":false}],"
    "\"normalizer\":null,"
    "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":true},"
    "\"decoder\":{\"type\":\"ByteLevel\"},"
    "\"model\":{\"type\":\"BPE\",\"merges\":[],\"vocab\":{%s}}}";

/* All 256 bytes in ByteLevel's alphabet, ids 0 to 255 by byte. */
static char *small_tokenizer(void) {
    char vocab[8192] = "", *json = malloc(16384);
    unsigned n = 0;
    for (unsigned b = 0; b < 256; b++) {
        bool plain = (b >= 33 && b <= 126) || (b >= 161 && b != 173);
        unsigned code = plain ? b : 256 + n++;
        snprintf(vocab + strlen(vocab), 32, "%s\"\\u%04x\":%u", b ? "," : "", code, b);
    }
    snprintf(json, 16384, small_json, vocab);
    return json;
}

static Tokenizer *open_small(TokenizerBlob *blob) {
    Error error = {""};
    char *json = small_tokenizer();
    if (tokenizer_import_json(json, strlen(json), NULL, 0, blob, &error) != STATUS_OK)
        fail_msg("%s", error.text);
    free(json);
    return open_blob(blob);
}

static void assert_ids(Tokenizer *t, const char *text, size_t n, const uint8_t *from_template,
                       unsigned flags, const int32_t *ids, size_t count) {
    Error error = {""};
    TokenList list = {0};
    assert_int_equal(tokenizer_encode(t, text, n, from_template, flags, &list, &error), STATUS_OK);
    assert_int_equal(list.length, count);
    if (count) assert_memory_equal(list.ids, ids, count * sizeof *ids);
    token_list_free(&list);
}

static void special_tokens_come_from_the_template_only(void **state) {
    (void)state;
    TokenizerBlob blob;
    Tokenizer *t = open_small(&blob);
    const char *text = "<|im_start|>";
    uint8_t from_template[12];
    TokenList list = {0};
    Error error = {""};
    memset(from_template, 1, sizeof from_template);
    assert_ids(t, text, 12, from_template, 0, (int32_t[]){256}, 1);
    assert_ids(t, text, 12, NULL, TOKENIZE_PARSE_SPECIAL, (int32_t[]){256}, 1);
    for (int i = 0; i < 12; i++) { /* one byte of the user's is enough to make it text */
        from_template[i] = 0;
        assert_int_equal(tokenizer_encode(t, text, 12, from_template, 0, &list, &error), STATUS_OK);
        assert_int_equal(list.length, 12);
        list.length = 0;
        from_template[i] = 1;
    }
    assert_int_equal(tokenizer_encode(t, text, 12, NULL, 0, &list, &error), STATUS_OK);
    assert_int_equal(list.length, 12);
    token_list_free(&list);
    assert_ids(t, "<think>", 7, NULL, 0, (int32_t[]){257}, 1);
    assert_true(tokenizer_is_special(t, 256));
    assert_false(tokenizer_is_special(t, 257));
    assert_int_equal(tokenizer_token_id(t, "<think>", 7), 257);
    tokenizer_close(t);
    tokenizer_blob_free(&blob);
}

/* Special tokens that are found in normalized text: every normalizer keeps the provenance of bytes.
 */
static void provenance_survives_normalization(void **state) {
    (void)state;
    static const char json[] =
        "{\"added_tokens\":[{\"id\":3,\"content\":\"<\\u00e9>\",\"special\":true,\"normalized\":"
        "true}],\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFD\"},{"
        "\"type\":\"Lowercase\"},{\"type\":\"Replace\",\"pattern\":{\"String\":\" "
        "\"},\"content\":\"_\"},{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"x+\"},\"content\":"
        "\"\"},{\"type\":\"NFC\"},{\"type\":\"Strip\",\"strip_left\":true,\"strip_right\":true}]},"
        "\"model\":{\"type\":\"WordLevel\",\"unk_token\":\"u\",\"vocab\":{\"u\":0,\"ab\":1,\"_\":2}"
        "}}";
    TokenizerBlob blob;
    Error error = {""};
    if (tokenizer_import_json(json, sizeof json - 1, NULL, 0, &blob, &error) != STATUS_OK)
        fail_msg("%s", error.text);
    Tokenizer *t = open_blob(&blob);
    const char *text = "aXb<\xC3\x89><\xC3\x89>"; /* the library finds both: "ab", 3, 3 */
    uint8_t from_template[11] = {0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1};
    assert_ids(t, text, 11, NULL, TOKENIZE_PARSE_SPECIAL, (int32_t[]){1, 3, 3}, 3);
    assert_ids(t, text, 11, from_template, 0, (int32_t[]){0, 3}, 2);
    from_template[8] = 0;
    assert_ids(t, text, 11, from_template, 0, (int32_t[]){0}, 1);
    tokenizer_close(t);
    tokenizer_blob_free(&blob);
}

/* A scratch area serves texts with and without provenance in turn; its two arrays may then have
 * different sizes. */
static void texts_with_and_without_provenance_take_turns(void **state) {
    (void)state;
    static const char json[] =
        "{\"normalizer\":{\"type\":\"Lowercase\"},\"model\":{\"type\":\"WordLevel\",\"unk_token\":"
        "\"u\",\"vocab\":{\"u\":0}}}";
    enum { LONG = 4 << 20 };
    TokenizerBlob blob;
    Error error = {""};
    if (tokenizer_import_json(json, sizeof json - 1, NULL, 0, &blob, &error) != STATUS_OK)
        fail_msg("%s", error.text);
    Tokenizer *t = open_blob(&blob);
    char *text = malloc(LONG);
    uint8_t *from_template = calloc(LONG, 1);
    memset(text, 'A', LONG);
    assert_ids(t, text, 10, from_template, 0, (int32_t[]){0}, 1);
    assert_ids(t, text, LONG, NULL, 0, (int32_t[]){0}, 1);
    assert_ids(t, text, LONG, from_template, 0, (int32_t[]){0}, 1);
    free(from_template);
    free(text);
    tokenizer_close(t);
    tokenizer_blob_free(&blob);
}

/* The normalization of the tokenizers library knows Unicode 9.0. It leaves U+1AC1, a mark that came
 * with 13.0, where it is, and moves no other mark across it. */
static void characters_that_the_library_does_not_know_stay(void **state) {
    (void)state;
    static const char json[] =
        "{\"normalizer\":{\"type\":\"NFC\"},\"model\":{\"type\":\"WordLevel\",\"unk_token\":\"u\","
        "\"vocab\":{\"u\":0,\"a\\u1ac1\\u0323\":1,\"\\u1ea1\\u1ac1\\u0301\":2}}}";
    TokenizerBlob blob;
    Error error = {""};
    if (tokenizer_import_json(json, sizeof json - 1, NULL, 0, &blob, &error) != STATUS_OK)
        fail_msg("%s", error.text);
    Tokenizer *t = open_blob(&blob);
    assert_ids(t, "a\u1ac1\u0323", 6, NULL, 0, (int32_t[]){1}, 1);
    assert_ids(t, "a\u0323\u1ac1\u0301", 8, NULL, 0, (int32_t[]){2}, 1);
    tokenizer_close(t);
    tokenizer_blob_free(&blob);
}

static void any_bytes_survive_encoding_and_decoding(void **state) {
    (void)state;
    TokenizerBlob blob;
    Tokenizer *t = open_small(&blob);
    char text[512], *decoded;
    size_t length;
    for (int i = 0; i < 512; i++) text[i] = (char)(i * 7 + i / 256);
    TokenList ids = {0};
    Error error = {""};
    assert_int_equal(tokenizer_encode(t, text, sizeof text, NULL, 0, &ids, &error), STATUS_OK);
    assert_int_equal(tokenizer_decode(t, ids.ids, ids.length, 0, &decoded, &length, &error),
                     STATUS_OK);
    assert_int_equal(length, sizeof text);
    assert_memory_equal(decoded, text, length);
    free(decoded);
    token_list_free(&ids);
    tokenizer_close(t);
    tokenizer_blob_free(&blob);
}

static void a_stream_never_cuts_a_character(void **state) {
    (void)state;
    TokenizerBlob blob;
    Tokenizer *t = open_small(&blob);
    const char *text = "a\xC3\xA9\xE2\x82\xAC\xF0\x9F\xA6\x99z";
    const size_t gives[] = {1, 0, 2, 0, 0, 3, 0, 0, 0, 4, 1};
    TokenDecoder d;
    Error error = {""};
    const char *bytes;
    size_t n;
    token_decoder_init(&d, t, 0);
    for (size_t i = 0; text[i]; i++) {
        assert_int_equal(token_decoder_push(&d, (uint8_t)text[i], &bytes, &n, &error), STATUS_OK);
        assert_int_equal(n, gives[i]);
        if (n) assert_memory_equal(bytes, text + i + 1 - n, n);
    }
    assert_int_equal(token_decoder_push(&d, 0xF0, &bytes, &n, &error), STATUS_OK);
    assert_int_equal(n, 0);
    assert_int_equal(token_decoder_flush(&d, &bytes, &n, &error), STATUS_OK);
    assert_int_equal(n, 1);
    token_decoder_free(&d);
    token_decoder_init(&d, t, 0);
    assert_int_equal(token_decoder_push(&d, 0xFF, &bytes, &n, &error), STATUS_OK);
    assert_int_equal(n, 1);
    assert_memory_equal(bytes, "\xFF", 1);
    TextBuffer repaired = {0};
    utf8_put_repaired(&repaired, bytes, n);
    assert_int_equal(repaired.length, 3);
    assert_memory_equal(repaired.bytes, "\xEF\xBF\xBD", 3);
    text_free(&repaired);
    assert_int_equal(token_decoder_push(&d, 100000, &bytes, &n, &error), STATUS_FAILED);
    token_decoder_free(&d);
    tokenizer_close(t);
    tokenizer_blob_free(&blob);
}

/* ---- The other formats, in miniature ---- */

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
    Tokenizer *t = open_blob(&blob);
    assert_ids(t, "abba", 4, NULL, TOKENIZE_ADD_BOS, (int32_t[]){1, 265, 264}, 3);
    assert_ids(t, "", 0, NULL, 0, NULL, 0);
    assert_ids(t, "\xC3\xA9", 2, NULL, 0, (int32_t[]){259, 0xC3 + 3, 0xA9 + 3}, 3);
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
    Tokenizer *t = open_blob(&blob);
    assert_ids(t, "ababa", 5, NULL, 0, (int32_t[]){258, 'a'}, 2);
    assert_ids(t, "bab ab", 6, NULL, 0, (int32_t[]){'b', 256, ' ', 256}, 4);
    assert_ids(t, "<|end|>", 7, NULL, TOKENIZE_PARSE_SPECIAL, (int32_t[]){259}, 1);
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
        Tokenizer *t = open_blob(&blob);
        assert_ids(t, "it's", 4, NULL, 0, cases[i].its, (size_t)cases[i].n_its);
        assert_ids(t, "12", 2, NULL, 0, cases[i].twelve, (size_t)cases[i].n_twelve);
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
        /* assigned by 14.0, and by none */
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
            Tokenizer *t = open_blob(&blob);
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
    Tokenizer *t = open_blob(&blob);
    /* Of "ab" and "ba" the latter is beyond the vocabulary's size. */
    assert_ids(t, "abba 1", 6, NULL, 0, (int32_t[]){266, 10 + 'b', 10 + 'a', 10 + ' ', 10 + '1'},
               5);
    assert_ids(t, "<s>", 3, NULL, TOKENIZE_PARSE_SPECIAL, (int32_t[]){1}, 1);
    assert_ids(t, "<s>", 3, NULL, 0, (int32_t[]){10 + '<', 10 + 's', 10 + '>'}, 3);
    assert_ids(t, "<SPECIAL_9>", 11, NULL, TOKENIZE_PARSE_SPECIAL, (int32_t[]){9}, 1);
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
        Tokenizer *t = open_blob(&blob);
        assert_ids(t, "ab", 2, NULL, 0, (int32_t[]){2}, 1);
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
        Tokenizer *t = open_blob(&blob);
        if (cases[i].composes)
            assert_ids(t, "e\xCC\x81", 3, NULL, 0, (int32_t[]){3, 4}, 2);
        else
            assert_ids(t, "e\xCC\x81", 3, NULL, 0, (int32_t[]){0, 1, 2}, 3);
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
        Tokenizer *t = open_blob(&blob);
        const int32_t *eos = tokenizer_eos(t, &n);
        assert_int_equal(n, n_tokens == 2 ? 1 : 2);
        assert_int_equal(eos[0], n_tokens == 2 ? 1 : 2);
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
        Tokenizer *t = open_blob(&blob);
        /* "b" has a byte token (plain) that the file calls a control token. */
        if (plain)
            assert_ids(t, text, sizeof text - 1, NULL, 0, (int32_t[]){1, 1}, 2);
        else
            assert_ids(t, text, sizeof text - 1, NULL, 0, (int32_t[]){1, 2, 2, 2, 1}, 5);
        tokenizer_close(t);
        tokenizer_blob_free(&blob);
    }
}

/* The unknown token of these models is special, and unknown text becomes it only where it is no
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
            Tokenizer *t = open_blob(&blob);
            TokenList ids = {0};
            tokenizer_encode(t, "z", 1, NULL, 0, &ids, &error);
            assert_int_equal(ids.length, cases[i].stands ? 1 : 0);
            token_list_free(&ids);
            tokenizer_close(t);
            tokenizer_blob_free(&blob);
        }
    }
}

static void what_cannot_be_done_is_refused_by_name(void **state) {
    (void)state;
    static const struct {
        const char *part, *says;
    } wrong[] = {
        {"\"pre_tokenizer\":{\"type\":\"UnicodeScripts\"}", "UnicodeScripts"},
        {"\"normalizer\":{\"type\":\"Magic\"}", "Magic"},
        {"\"decoder\":{\"type\":\"CTC\"}", "CTC"},
        {"\"pre_tokenizer\":{\"type\":\"Split\",\"behavior\":\"Isolated\",\"pattern\":"
         "{\"Regex\":\"a(?~b)\"}}",
         "a(?~b)"},
        {"\"pre_tokenizer\":{\"type\":\"Split\",\"behavior\":\"Isolated\",\"pattern\":"
         "{\"Regex\":\"(*LIMIT_MATCH=1)a\"}}",
         "LIMIT_MATCH"},
        {"\"pre_tokenizer\":{\"type\":\"Split\",\"behavior\":\"Isolated\",\"pattern\":"
         "{\"Regex\":\"a\\\\C\"}}",
         "a\\C"},
        {"\"pre_tokenizer\":{\"type\":\"Split\",\"behavior\":\"Isolated\",\"pattern\":"
         "{\"Regex\":\"a(?C1)\"}}",
         "a(?C1)"},
    };
    {
        /* An affix as long as a page would make every byte of a text thousands of symbols. */
        char json[8192], affix[4097];
        TokenizerBlob blob;
        Error error = {""};
        memset(affix, '#', sizeof affix - 1);
        affix[sizeof affix - 1] = 0;
        snprintf(json, sizeof json,
                 "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"u\":0},\"merges\":[],"
                 "\"continuing_subword_prefix\":\"%s\"}}",
                 affix);
        assert_int_equal(tokenizer_import_json(json, strlen(json), NULL, 0, &blob, &error),
                         STATUS_FAILED);
        assert_non_null(strstr(error.text, "continuing_subword_prefix"));
    }
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char json[1024];
        TokenizerBlob blob;
        Error error = {""};
        snprintf(json, sizeof json,
                 "{%s,\"model\":{\"type\":\"WordLevel\",\"unk_token\":\"u\",\"vocab\":{\"u\":0}}}",
                 wrong[i].part);
        assert_int_equal(tokenizer_import_json(json, strlen(json), NULL, 0, &blob, &error),
                         STATUS_FAILED);
        if (!strstr(error.text, wrong[i].says)) fail_msg("'%s' says nothing of it", error.text);
    }
}

/* ---- Threads, damage ---- */

static void *encode_often(void *argument) {
    Tokenizer *t = argument;
    for (int i = 0; i < 200; i++) {
        Error error = {""};
        TokenList ids = {0};
        if (tokenizer_encode(t, "one two three 123 four", 22, NULL, 0, &ids, &error) != STATUS_OK ||
            ids.length != 22)
            return argument;
        token_list_free(&ids);
    }
    return NULL;
}

static void threads_share_a_tokenizer(void **state) {
    (void)state;
    TokenizerBlob blob;
    Tokenizer *t = open_small(&blob);
    pthread_t threads[4];
    void *failed;
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, encode_often, t);
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
    tokenizer_close(t);
    tokenizer_blob_free(&blob);
}

/* Every 4 bytes of the header and a sample of the rest, set to extreme values. */
static void a_damaged_section_is_refused_or_used_without_harm(void **state) {
    (void)state;
    static const uint32_t values[] = {0, 1, 7, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF};
    TokenizerBlob blob;
    tokenizer_close(open_small(&blob));
    char *copy = malloc(blob.size);
    for (size_t at = 0; at + 4 <= blob.size; at += at < sizeof(SectionHeader) ? 4 : 244)
        for (size_t v = 0; v < 6; v++) {
            Tokenizer *t;
            Error error = {""};
            memcpy(copy, blob.bytes, blob.size);
            memcpy(copy + at, &values[v], 4);
            if (tokenizer_open(&t, copy, blob.size, &error) != STATUS_OK) continue;
            TokenList ids = {0};
            char *text;
            size_t n;
            tokenizer_encode(t, "hello <think> w\xC3\xA9 123", 20, NULL, 7, &ids, &error);
            if (tokenizer_decode(t, ids.ids, ids.length, 0, &text, &n, &error) == STATUS_OK)
                free(text);
            tokenizer_token_id(t, "<think>", 7);
            token_list_free(&ids);
            tokenizer_close(t);
        }
    for (size_t size = 0; size < blob.size; size += 97) {
        Tokenizer *t;
        Error error = {""};
        assert_int_equal(tokenizer_open(&t, blob.bytes, size, &error), STATUS_FAILED);
    }
    free(copy);
    tokenizer_blob_free(&blob);
}

static void versions_are_told(void **state) {
    (void)state;
    char text[200];
    tokenizer_versions(text, sizeof text);
    assert_non_null(strstr(text, "PCRE2 "));
    assert_non_null(strstr(text, "utf8proc "));
    assert_non_null(strstr(text, "(Unicode "));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_step_gives_the_words_of_the_library),
        cmocka_unit_test(every_model_gives_the_ids_and_texts_of_the_library),
        cmocka_unit_test(special_tokens_come_from_the_template_only),
        cmocka_unit_test(provenance_survives_normalization),
        cmocka_unit_test(characters_that_the_library_does_not_know_stay),
        cmocka_unit_test(texts_with_and_without_provenance_take_turns),
        cmocka_unit_test(any_bytes_survive_encoding_and_decoding),
        cmocka_unit_test(a_stream_never_cuts_a_character),
        cmocka_unit_test(llama2c_encodes_and_decodes_as_its_run_c),
        cmocka_unit_test(tiktoken_merges_by_rank),
        cmocka_unit_test(a_tiktoken_list_is_split_as_its_pattern_says),
        cmocka_unit_test(characters_after_unicode_14_have_their_categories),
        cmocka_unit_test(tekken_puts_special_tokens_first),
        cmocka_unit_test(a_tekken_that_lies_is_refused_by_name),
        cmocka_unit_test(sha256_is_that_of_the_standard),
        cmocka_unit_test(gguf_names_of_patterns_are_all_taken),
        cmocka_unit_test(gguf_names_stand_for_the_normalizer_of_their_tokenizer),
        cmocka_unit_test(a_channel_that_ends_does_not_end_the_text_of_a_gguf),
        cmocka_unit_test(unknown_bytes_never_become_a_special_token),
        cmocka_unit_test(only_a_true_unknown_token_stands_for_unknown_text),
        cmocka_unit_test(what_cannot_be_done_is_refused_by_name),
        cmocka_unit_test(threads_share_a_tokenizer),
        cmocka_unit_test(a_damaged_section_is_refused_or_used_without_harm),
        cmocka_unit_test(versions_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
