/* The tokenizer without the files of ../shared: compares every component of tokenizer.json with
 * results of the tokenizers library (tests/fixtures/tokenizers.json and tokenizer_models.json, made
 * by tokenizer_components.py); special tokens, streams of ids, and damaged sections. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include "base/unicode.h"
#include "formats/tokenizers/tokenizer_json.h"
#include "tokenizer/tokenizer_section.h"
#include "tokenizer_sources.h"
#include "session/versions.h"
#include <jansson.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

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
        Tokenizer *tokenizer = source_tokenizer(&blob);
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
    return source_tokenizer(blob);
}

/* transformers 5.24's GPT2Tokenizer(Fast) puts a ByteLevel with its own add_prefix_space, that of
 * tokenizer_config.json or false, in place of tokenizer.json's; other classes take tokenizer.json
 * as it is. The ids are those of AutoTokenizer.from_pretrained. */
static void the_class_of_gpt2_takes_add_prefix_space_from_its_config(void **state) {
    (void)state;
    static const struct {
        const char *config;
        bool in_file, expected; /* whether there is a space in front */
    } cases[] = {
        {"{\"tokenizer_class\":\"GPT2Tokenizer\",\"add_prefix_space\":true}", false, true},
        {"{\"tokenizer_class\":\"GPT2TokenizerFast\",\"add_prefix_space\":true}", false, true},
        {"{\"tokenizer_class\":\"GPT2Tokenizer\"}", true, false},
        {"{\"tokenizer_class\":\"GPT2Tokenizer\",\"add_prefix_space\":false}", true, false},
        {"{\"tokenizer_class\":\"PreTrainedTokenizerFast\",\"add_prefix_space\":true}", false,
         false},
        {"{\"tokenizer_class\":\"PreTrainedTokenizerFast\"}", true, true},
        {"{\"add_prefix_space\":true}", false, false}};
    static const char text[] = "hi<|im_start|>hi";
    static const int32_t with[] = {32, 104, 105, 256, 32, 104, 105};
    static const int32_t without[] = {104, 105, 256, 104, 105};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        TokenizerBlob blob;
        Error error = {""};
        char *json = small_tokenizer(), *at = strstr(json, "space\":false");
        if (cases[i].in_file) memcpy(at, "space\": true", 12);
        if (tokenizer_import_json(json, strlen(json), cases[i].config, strlen(cases[i].config),
                                  &blob, &error) != STATUS_OK)
            fail_msg("%s", error.text);
        Tokenizer *t = source_tokenizer(&blob);
        source_assert_ids(t, text, sizeof text - 1, NULL, TOKENIZE_PARSE_SPECIAL,
                          cases[i].expected ? with : without, cases[i].expected ? 7 : 5);
        tokenizer_close(t);
        tokenizer_blob_free(&blob);
        free(json);
    }
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
    source_assert_ids(t, text, 12, from_template, 0, (int32_t[]){256}, 1);
    source_assert_ids(t, text, 12, NULL, TOKENIZE_PARSE_SPECIAL, (int32_t[]){256}, 1);
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
    source_assert_ids(t, "<think>", 7, NULL, 0, (int32_t[]){257}, 1);
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
    Tokenizer *t = source_tokenizer(&blob);
    const char *text = "aXb<\xC3\x89><\xC3\x89>"; /* the library finds both: "ab", 3, 3 */
    uint8_t from_template[11] = {0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1};
    source_assert_ids(t, text, 11, NULL, TOKENIZE_PARSE_SPECIAL, (int32_t[]){1, 3, 3}, 3);
    source_assert_ids(t, text, 11, from_template, 0, (int32_t[]){0, 3}, 2);
    from_template[8] = 0;
    source_assert_ids(t, text, 11, from_template, 0, (int32_t[]){0}, 1);
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
    Tokenizer *t = source_tokenizer(&blob);
    char *text = malloc(LONG);
    uint8_t *from_template = calloc(LONG, 1);
    memset(text, 'A', LONG);
    source_assert_ids(t, text, 10, from_template, 0, (int32_t[]){0}, 1);
    source_assert_ids(t, text, LONG, NULL, 0, (int32_t[]){0}, 1);
    source_assert_ids(t, text, LONG, from_template, 0, (int32_t[]){0}, 1);
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
    Tokenizer *t = source_tokenizer(&blob);
    source_assert_ids(t, "a\u1ac1\u0323", 6, NULL, 0, (int32_t[]){1}, 1);
    source_assert_ids(t, "a\u0323\u1ac1\u0301", 8, NULL, 0, (int32_t[]){2}, 1);
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
    versions_of_libraries(text, sizeof text);
    assert_non_null(strstr(text, "PCRE2 "));
    assert_non_null(strstr(text, "utf8proc "));
    assert_non_null(strstr(text, "(Unicode "));
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_step_gives_the_words_of_the_library),
        cmocka_unit_test(every_model_gives_the_ids_and_texts_of_the_library),
        cmocka_unit_test(the_class_of_gpt2_takes_add_prefix_space_from_its_config),
        cmocka_unit_test(special_tokens_come_from_the_template_only),
        cmocka_unit_test(provenance_survives_normalization),
        cmocka_unit_test(characters_that_the_library_does_not_know_stay),
        cmocka_unit_test(texts_with_and_without_provenance_take_turns),
        cmocka_unit_test(any_bytes_survive_encoding_and_decoding),
        cmocka_unit_test(a_stream_never_cuts_a_character),
        cmocka_unit_test(what_cannot_be_done_is_refused_by_name),
        cmocka_unit_test(threads_share_a_tokenizer),
        cmocka_unit_test(a_damaged_section_is_refused_or_used_without_harm),
        cmocka_unit_test(versions_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
