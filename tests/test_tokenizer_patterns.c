/* The patterns that cut text into words: the patterns that were rewritten to take linear time cut
 * as the originals do, and no pattern that a GGUF file can name is slow on any text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include "base/address_sanitizer.h"
#include "formats/tokenizers/tokenizer_gguf.h"
#include "formats/tokenizers/tokenizer_import.h"
#include "formats/tokenizers/tokenizer_json.h"
#include "tests/tier.h"
#include "tokenizer.h"
#include "tokenizer/scratch.h"
#include "tokenizer/tokenizer_pattern.h"
#include "tokenizer/tokenizer_table.h"
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

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

typedef struct Opened {
    TokenizerBlob blob;
    Tokenizer *tokenizer;
} Opened;

static void open_imported(Opened *o, const char *name, Status status, Error *error) {
    if (status != STATUS_OK ||
        tokenizer_open(&o->tokenizer, o->blob.bytes, o->blob.size, error) != STATUS_OK)
        fail_msg("%s: %s", name, error->text);
}

static void close_opened(Opened *o) {
    tokenizer_close(o->tokenizer);
    tokenizer_blob_free(&o->blob);
}

/* ---- What was rewritten cuts as before ------------------------------------------------------- */

/* A vocabulary of characters, from whose ids the words can be read: with continuing_subword_prefix
 * the first character of a word has an even id and the others have odd ids. */
static const char alphabet[] = "1\xC2\xB2\xD9\xA3 \n\ra'.\t";

static json_t *tokenizer_of(json_t *splits) {
    json_t *vocab = json_object();
    int id = 0;
    for (const char *p = alphabet; *p; id += 2) {
        size_t n = (uint8_t)*p < 0x80 ? 1 : 2;
        char text[8];
        snprintf(text, sizeof text, "%.*s", (int)n, p);
        json_object_set_new(vocab, text, json_integer(id));
        snprintf(text, sizeof text, "##%.*s", (int)n, p);
        json_object_set_new(vocab, text, json_integer(id + 1));
        p += n;
    }
    return json_pack("{s:{s:s, s:o}, s:{s:s, s:o, s:[], s:s}}", "pre_tokenizer", "type", "Sequence",
                     "pretokenizers", splits, "model", "type", "BPE", "vocab", vocab, "merges",
                     "continuing_subword_prefix", "##");
}

static json_t *split_by(const char *pattern, const char *behaviour, bool plainly) {
    char text[1024];
    /* Around the pattern a group that changes nothing, for which the importer does not know it. */
    snprintf(text, sizeof text, plainly ? "(?:%s)" : "%s", pattern);
    return json_pack("{s:s, s:{s:s}, s:s, s:b}", "type", "Split", "pattern", "Regex", text,
                     "behavior", behaviour, "invert", 0);
}

static void open_splits(Opened *o, json_t *splits) {
    Error error = {""};
    json_t *root = tokenizer_of(splits);
    char *text = json_dumps(root, 0);
    open_imported(o, text, tokenizer_import_json(text, strlen(text), NULL, 0, &o->blob, &error),
                  &error);
    free(text);
    json_decref(root);
}

static const char superbpe[] = "(?=(\\d{3})+(?!\\d))";
static const char aya[] = "\\d{1,3}(?=(?:\\d{3})*\\b)";
static const char afmoe[] = "\\p{N}{1,3}(?=(?:\\p{N}{3})*(?!\\p{N}))";
static const char jais[] =
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}|"
    " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s{512}(?!\\S)|\\s{256}(?!\\S)|"
    "\\s{128}(?!\\S)|\\s{64}(?!\\S)|\\s{32}(?!\\S)|\\s{16}(?!\\S)|\\s{8}(?!\\S)|\\s{4}(?!\\S)|"
    "\\s{1,2}(?!\\S)|\\s{1}";

/* Runs of one character, with lengths that are multiples of the patterns' counts and others. */
static size_t random_text(unsigned *seed, char *text) {
    size_t n = 0;
    int runs = rand_r(seed) % 8;
    for (int i = 0; i < runs; i++) {
        const char *p = alphabet + (size_t)rand_r(seed) % (sizeof alphabet - 1);
        if (((uint8_t)*p & 0xC0) == 0x80) p--;
        size_t width = (uint8_t)*p < 0x80 ? 1 : 2;
        int length = rand_r(seed) % 3    ? rand_r(seed) % 4
                     : rand_r(seed) % 16 ? rand_r(seed) % 12
                                         : rand_r(seed) % 800;
        for (int j = 0; j < length; j++, n += width) memcpy(text + n, p, width);
    }
    return n;
}

static void patterns_made_linear_cut_as_they_did(void **state) {
    (void)state;
    static const struct {
        const char *pattern, *before, *behaviour;
    } cases[] = {{superbpe, "\\p{N}+", "Isolated"},
                 {superbpe, NULL, "Isolated"},
                 {superbpe, NULL, "Removed"},
                 {superbpe, NULL, "MergedWithPrevious"},
                 {superbpe, NULL, "MergedWithNext"},
                 {superbpe, NULL, "Contiguous"},
                 {aya, NULL, "Isolated"},
                 {afmoe, NULL, "Isolated"},
                 {jais, NULL, "Isolated"},
                 {jais, NULL, "Contiguous"},
                 {jais, "a", "Isolated"}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        Opened both[2];
        unsigned seed = (unsigned)c + 1;
        for (int plainly = 0; plainly < 2; plainly++) {
            json_t *splits = json_array();
            if (cases[c].before)
                json_array_append_new(splits, split_by(cases[c].before, "Isolated", true));
            json_array_append_new(splits, split_by(cases[c].pattern, cases[c].behaviour, plainly));
            open_splits(&both[plainly], splits);
        }
        size_t rounds = tier_count(800, 4000, 4000);
        for (size_t i = 0; i < rounds; i++) {
            char text[16384];
            size_t n = random_text(&seed, text);
            TokenList ids[2] = {{0}};
            Error error = {""};
            for (int k = 0; k < 2; k++)
                if (tokenizer_encode(both[k].tokenizer, text, n, NULL, 0, &ids[k], &error) !=
                    STATUS_OK)
                    fail_msg("%s", error.text);
            if (ids[0].length != ids[1].length ||
                (n > 0 && memcmp(ids[0].ids, ids[1].ids, ids[0].length * sizeof *ids[0].ids) != 0))
                fail_msg("%s, %s: '%.*s' is cut otherwise", cases[c].pattern, cases[c].behaviour,
                         (int)n, text);
            token_list_free(&ids[0]);
            token_list_free(&ids[1]);
        }
        close_opened(&both[0]);
        close_opened(&both[1]);
    }
}

/* ---- No name of a GGUF file is slow ---------------------------------------------------------- */

/* GGUF's names of pre-tokenizers: one for each set of patterns. */
static const char *const names[] = {
    "default",    "gpt-2",    "starcoder",      "llama3",      "qwen2",      "qwen35",
    "ufakzeka",   "laguna",   "minicpm5",       "tekken",      "gpt-4o",     "tiny_aya",
    "kimi-k2",    "youtu",    "deepseek-llm",   "deepseek-v3", "spark2_5",   "afmoe",
    "falcon",     "bloom",    "viking",         "chameleon",   "jais-2",     "exaone-moe",
    "bailingmoe", "superbpe", "deepseek-coder", "gemma4",      "whitespace", "seed-coder"};

static void open_gguf(Opened *o, const char *pre) {
    static char texts[256][5];
    static TokenizerString tokens[256];
    TokenizerGguf g = TOKENIZER_GGUF_NONE;
    Error error = {""};
    unsigned n = 0;
    for (unsigned b = 0; b < 256; b++) { /* ByteLevel's alphabet */
        bool plain = (b >= 33 && b <= 126) || (b >= 161 && b != 173);
        unsigned code = plain ? b : 256 + n++;
        int length = code < 0x80 ? snprintf(texts[b], 5, "%c", (char)code)
                                 : snprintf(texts[b], 5, "%c%c", (char)(0xC0 | code >> 6),
                                            (char)(0x80 | (code & 63)));
        tokens[b] = (TokenizerString){texts[b], (size_t)length};
    }
    g.model = (TokenizerString){"gpt2", 4};
    g.pre = (TokenizerString){pre, strlen(pre)};
    g.tokens = tokens;
    g.n_tokens = 256;
    open_imported(o, pre, tokenizer_import_gguf(&g, &o->blob, &error), &error);
}

static void a_megabyte_of_anything_takes_under_a_second_for_every_gguf_name(void **state) {
    (void)state;
    static const char *const units[] = {
        " ", "1", "a", "A", "'", "\n", "\t", "e\xCC\x81", "\xE4\xBD\xA0", " a", " \n", "(", "IMG"};
    static const char *const ends[] = {"", "x", "7", "\n", " ", "!"};
    const size_t n = 1 << 20;
    char *text = malloc(n + 64);
    double worst = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        Opened o;
        open_gguf(&o, names[i]);
        for (size_t u = 0; u < sizeof units / sizeof *units; u++) {
            size_t length = 0, width = strlen(units[u]);
            /* Sanitizer builds run only one text in four. */
            if (PATIENCE > 1 && (u + i) % 4) continue;
            if (!tier_takes(u + i, 39, 8)) continue;
            while (length < n) memcpy(text + length, units[u], width), length += width;
            const char *end = ends[(u + i) % 6];
            memcpy(text + length, end, strlen(end));
            length += strlen(end);
            TokenList ids = {0};
            Error error = {""};
            double start = now();
            if (tokenizer_encode(o.tokenizer, text, length, NULL, 0, &ids, &error) != STATUS_OK)
                fail_msg("%s: %s", names[i], error.text);
            double time = now() - start;
            if (time > worst) worst = time;
            if (time > PATIENCE) fail_msg("%s: '%s' x n: %.2f s", names[i], units[u], time);
            token_list_free(&ids);
        }
        close_opened(&o);
    }
    print_message("the slowest megabyte: %.2f s\n", worst);
    free(text);
}

/* ---- Steps are counted for other patterns ---------------------------------------------------- */

static bool is_counted(const pcre2_code *code) {
    uint32_t options;
    pcre2_pattern_info(code, PCRE2_INFO_ALLOPTIONS, &options);
    return options & PCRE2_AUTO_CALLOUT;
}

static void patterns_of_gguf_names_cost_nothing_to_bound(void **state) {
    (void)state;
    bool all_known = true;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        Opened o;
        open_gguf(&o, names[i]);
        const StepList *splits = &o.tokenizer->splits;
        for (size_t k = 0; k < splits->n; k++) {
            size_t n;
            const char *pattern = table_section_text(o.tokenizer, splits->steps[k].a, &n);
            if (!splits->patterns[k] || !is_counted(splits->patterns[k])) continue;
            print_message("%s, split %zu: add 0x%016llx to linear_patterns\n", names[i], k,
                          (unsigned long long)pattern_hash(pattern, n));
            all_known = false;
        }
        close_opened(&o);
    }
    assert_true(all_known);
}

/* What encoding a text of n bytes, `unit` again and again, says when a tokenizer splits by a
 * pattern; "" without an error. */
static void encode_with(const char *pattern, bool with_jit, const char *unit, size_t n,
                        Error *error) {
    Opened o;
    char *text = malloc(n + 8);
    TokenList ids = {0};
    for (size_t i = 0; i < n; i += strlen(unit)) memcpy(text + i, unit, strlen(unit));
    json_t *splits = json_array();
    json_array_append_new(splits, split_by(pattern, "Isolated", false));
    open_splits(&o, splits);
    pcre2_code **code = &o.tokenizer->splits.patterns[0];
    assert_true(is_counted(*code));
    if (!with_jit) { /* a copy of a pattern is without JIT's code */
        pcre2_code *copy = pcre2_code_copy(*code);
        pcre2_code_free(*code);
        *code = copy;
    }
    error->text[0] = '\0';
    (void)tokenizer_encode(o.tokenizer, text, n, NULL, 0, &ids, error);
    token_list_free(&ids);
    free(text);
    close_opened(&o);
}

static void a_slow_pattern_is_refused_with_its_name_by_either_matcher(void **state) {
    (void)state;
    static const struct {
        const char *pattern, *unit;
        size_t length;
    } attacks[] = {{"(?:.|..){1,22}\\x41|.", "a", 1000},
                   {"(a|aa)+$", "aa1", 62000},
                   {"(a|aa)+1$", "a", 62000},
                   {"a+b|.", "a", 1 << 20},
                   {"(?>a+)b|.", "a", 1 << 20},
                   {"(?=(a*))\\1b|.", "a", 1 << 20}};
    for (size_t i = 0; i < sizeof attacks / sizeof *attacks; i++) {
        if (!tier_takes(i, 6, 1)) continue;
        Error error[2];
        double start = now();
        for (int jit = 0; jit < 2; jit++)
            encode_with(attacks[i].pattern, jit, attacks[i].unit, attacks[i].length, &error[jit]);
        assert_true(now() - start < 8 * PATIENCE);
        assert_string_equal(error[0].text, error[1].text);
        if (strcmp(attacks[i].unit, "aa1") == 0) {
            assert_string_equal(error[0].text, "");
        } else {
            assert_non_null(strstr(error[0].text, "more than "));
            assert_non_null(strstr(error[0].text, "tokenizer: pattern '"));
        }
    }
}

static void slow_normalizers_and_decoders_are_refused(void **state) {
    (void)state;
    char word[] = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    json_t *replace = json_pack("{s:s, s:{s:s}, s:s}", "type", "Replace", "pattern", "Regex",
                                "(a|aa)+b", "content", "");
    json_t *model =
        json_pack("{s:s, s:{s:i, s:i}, s:[]}", "type", "BPE", "vocab", "a", 0, word, 1, "merges");
    for (int decodes = 0; decodes < 2; decodes++) {
        TokenizerBlob blob;
        Tokenizer *t;
        TokenList ids = {0};
        Error error = {""};
        json_t *root =
            json_pack("{s:O, s:O}", "model", model, decodes ? "decoder" : "normalizer", replace);
        char *text = json_dumps(root, 0);
        /* A decoder is run over the vocabulary when it is imported. */
        Status status = tokenizer_import_json(text, strlen(text), NULL, 0, &blob, &error);
        if (!decodes) {
            assert_int_equal(status, STATUS_OK);
            assert_int_equal(tokenizer_open(&t, blob.bytes, blob.size, &error), STATUS_OK);
            status = tokenizer_encode(t, word, strlen(word), NULL, 0, &ids, &error);
            tokenizer_close(t);
            tokenizer_blob_free(&blob);
        }
        assert_int_equal(status, STATUS_FAILED);
        assert_non_null(strstr(error.text, "pattern '(a|aa)+b' failed on this text: more than"));
        free(text);
        json_decref(root);
    }
    json_decref(replace);
    json_decref(model);
}

/* A match of a group that is repeated for each character keeps a frame for each: of 3 MB that were
 * 1.35 GB and 20 s. In a process of its own, whose memory is its own. */
static void a_match_takes_bounded_memory(void **state) {
    (void)state;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct rusage before, after;
        Error error;
        double start = now();
        getrusage(RUSAGE_SELF, &before);
        encode_with("(.|\\n)*Z", true, "a", 3 << 20, &error);
        getrusage(RUSAGE_SELF, &after);
        long megabytes = (after.ru_maxrss - before.ru_maxrss) / 1024;
        print_message("%ld MB, %.1f s: %s\n", megabytes, now() - start, error.text);
        /* A sanitizer keeps what the matcher has freed while it grew. */
        bool bounded = ADDRESS_SANITIZER || megabytes < 450;
        _exit(strstr(error.text, "failed on this text: ") && bounded ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* Both matchers take the same steps: the least budget that suffices is the same for both. */
static void steps_are_the_same_with_and_without_jit(void **state) {
    (void)state;
    static const char *const patterns[] = {
        "a+1|.",         "(a|1)*?\\.|\\s",      "(?:a?a?a?)+1|\\S+", "(?i:A|'1)+|[^a]{2,}",
        "\\s+(?!\\S)|a", "(?<=a)1|(?<!1)a+|'.", "(a+)\\1?+.",        "(?>a|a1)+\\n|\\r?\\n"};
    unsigned seed = 7;
    for (size_t p = 0; p < sizeof patterns / sizeof *patterns; p++) {
        pcre2_code *code;
        Error error;
        Scratch *scratch = scratch_new();
        if (pattern_compile(patterns[p], strlen(patterns[p]), &code, &error) != STATUS_OK)
            fail_msg("%s", error.text);
        pcre2_code *interpreted = pcre2_code_copy(code);
        size_t rounds = tier_count(40, 200, 200);
        for (size_t i = 0; i < rounds; i++) {
            char text[16384];
            size_t n = random_text(&seed, text), from, to, left[2];
            for (int jit = 0; jit < 2; jit++) {
                Matches matches = {.span = {.bytes = text, .length = n},
                                   .code = jit ? code : interpreted,
                                   .string = patterns[p],
                                   .string_length = strlen(patterns[p])};
                pattern_allow(scratch, pattern_steps(n));
                while (matches_next(&matches, scratch, &from, &to, &error) > 0) {
                }
                left[jit] = scratch->steps_left;
            }
            assert_int_equal(left[0], left[1]);
        }
        pcre2_code_free(code);
        pcre2_code_free(interpreted);
        scratch_free(scratch);
    }
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(patterns_of_gguf_names_cost_nothing_to_bound),
        cmocka_unit_test(a_slow_pattern_is_refused_with_its_name_by_either_matcher),
        cmocka_unit_test(slow_normalizers_and_decoders_are_refused),
        cmocka_unit_test(a_match_takes_bounded_memory),
        cmocka_unit_test(steps_are_the_same_with_and_without_jit),
        cmocka_unit_test(patterns_made_linear_cut_as_they_did),
        cmocka_unit_test(a_megabyte_of_anything_takes_under_a_second_for_every_gguf_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
