/* Imports tekken.json, Mistral's own format (mistral_common/tokens/tokenizers/tekken.py):
 *
 *     config          pattern, default_vocab_size, default_num_special_tokens, version
 *     vocab           [{rank, token_bytes (base64), token_str}], in the order of their ranks
 *     special_tokens  [{rank, token_str, is_control}]; files up to version v7 may lack it
 *
 * Special tokens have the first ids, and a token's id is its rank plus their number. The vocabulary
 * may list more tokens than the model has: those at its end are left out. */
#include "formats/tokenizers/tokenizer_tekken.h"

#include <stdio.h>

#include "formats/tokenizers/tokenizer_ranks.h"
#include "formats/tokenizers/tokenizer_write.h"
#include "json/json_object.h"

enum { MOST_TOKENS = 1 << 21 };

typedef struct Tekken {
    const json_t *vocab, *specials;
    const char *pattern;
    size_t pattern_length, n_specials, n_words; /* words: tokens that are not special */
} Tekken;

/* The special tokens of files without a list of them, from id 0 on. */
static const char *const first_specials[] = {"<unk>",
                                             "<s>",
                                             "</s>",
                                             "[INST]",
                                             "[/INST]",
                                             "[AVAILABLE_TOOLS]",
                                             "[/AVAILABLE_TOOLS]",
                                             "[TOOL_RESULTS]",
                                             "[/TOOL_RESULTS]",
                                             "[TOOL_CALLS]",
                                             "[IMG]",
                                             "<pad>",
                                             "[IMG_BREAK]",
                                             "[IMG_END]",
                                             "[PREFIX]",
                                             "[MIDDLE]",
                                             "[SUFFIX]",
                                             "[SYSTEM_PROMPT]",
                                             "[/SYSTEM_PROMPT]",
                                             "[TOOL_CONTENT]"};

enum { N_FIRST_SPECIALS = sizeof first_specials / sizeof *first_specials };

/* Reads a count; SIZE_MAX: it is absent or not one. */
static size_t count_of(const json_t *object, const char *key) {
    const json_t *value = json_value(object, key);
    json_int_t n = json_is_integer(value) ? json_integer_value(value) : -1;
    return n < 0 || n > MOST_TOKENS ? SIZE_MAX : (size_t)n;
}

/* Reads and checks the sizes, the pattern and the lists of the file into *t, which borrows them. */
static Status read_config(Tekken *t, const json_t *root, Error *error) {
    const json_t *config = json_value(root, "config"), *pattern = json_value(config, "pattern");
    size_t n_tokens = count_of(config, "default_vocab_size");
    t->n_specials = count_of(config, "default_num_special_tokens");
    t->vocab = json_value(root, "vocab");
    t->specials = json_value(root, "special_tokens");
    if (!json_is_string(pattern)) return error_set(error, "tekken: config.pattern is missing");
    t->pattern = json_string_value(pattern);
    t->pattern_length = json_string_length(pattern);
    if (t->n_specials == SIZE_MAX || n_tokens == SIZE_MAX || n_tokens < t->n_specials)
        return error_set(error, "tekken: config.default_vocab_size or "
                                "config.default_num_special_tokens is missing or wrong");
    t->n_words = n_tokens - t->n_specials;
    if (!json_is_array(t->vocab) || json_array_size(t->vocab) < t->n_words)
        return error_set(error, "tekken: vocab has %zu tokens, but config asks for %zu",
                         json_array_size(t->vocab), t->n_words);
    if (t->specials && !json_is_array(t->specials))
        return error_set(error, "tekken: special_tokens is not a list");
    size_t listed = t->specials ? json_array_size(t->specials) : N_FIRST_SPECIALS;
    if (listed > t->n_specials)
        return error_set(error, "tekken: %zu special tokens, but config allows %zu", listed,
                         t->n_specials);
    const char *version = json_text(config, "version");
    if (!t->specials && (!version || version[0] != 'v' || strlen(version) != 2 || version[1] > '7'))
        return error_set(error, "tekken: version '%.20s' without special_tokens",
                         version ? version : "");
    return STATUS_OK;
}

static Status read_words(Builder *b, const Tekken *t, Error *error) {
    for (size_t i = 0; i < t->n_words; i++) {
        const json_t *entry = json_array_get(t->vocab, i);
        const json_t *bytes = json_value(entry, "token_bytes");
        char where[64];
        snprintf(where, sizeof where, "tekken: vocab[%zu]", i);
        if (count_of(entry, "rank") != i || !json_is_string(bytes))
            return error_set(error, "%s: its rank is not %zu, or token_bytes is missing", where, i);
        if (ranks_token(b, (int64_t)(t->n_specials + i), (int64_t)i, json_string_value(bytes),
                        json_string_length(bytes), where, error) != STATUS_OK)
            return STATUS_FAILED;
    }
    return ranks_finish(b, "tekken", error);
}

static Status add_special(Builder *b, size_t id, const char *text, size_t n, Error *error) {
    if (n == 0 || n > SECTION_MAX_ADDED)
        return error_set(error, "tekken: special token %zu has %zu bytes", id, n);
    if (ranks_special(b, (int64_t)id, text, n, error) != STATUS_OK) return STATUS_FAILED;
    if (n == 3 && memcmp(text, "<s>", 3) == 0) ranks_begin(b, (int64_t)id);
    if (n == 4 && memcmp(text, "</s>", 4) == 0) builder_eos(b, (int64_t)id);
    if (n == 5 && memcmp(text, "<unk>", 5) == 0) b->header.unk_id = (int32_t)id;
    return STATUS_OK;
}

/* Adds the special tokens: those that the file lists, or else those of old files, and
 * "<SPECIAL_id>" for each id left without a name. */
static Status read_specials(Builder *b, const Tekken *t, Error *error) {
    size_t n = t->specials ? json_array_size(t->specials) : N_FIRST_SPECIALS;
    for (size_t i = 0; i < n; i++) {
        const json_t *entry = json_array_get(t->specials, i);
        const json_t *text = json_value(entry, "token_str");
        size_t id = t->specials ? count_of(entry, "rank") : i;
        if (t->specials && (id >= t->n_specials || !json_is_string(text)))
            return error_set(error,
                             "tekken: special_tokens[%zu]: its rank is not below %zu, or "
                             "token_str is missing",
                             i, t->n_specials);
        const char *bytes = t->specials ? json_string_value(text) : first_specials[i];
        size_t length = t->specials ? json_string_length(text) : strlen(bytes);
        if (add_special(b, id, bytes, length, error) != STATUS_OK) return STATUS_FAILED;
    }
    for (size_t id = n; id < t->n_specials; id++) { /* the ids without a name */
        char text[32];
        int length = snprintf(text, sizeof text, "<SPECIAL_%zu>", id);
        if (add_special(b, id, text, (size_t)length, error) != STATUS_OK) return STATUS_FAILED;
    }
    return STATUS_OK;
}

static Status import_tekken(Builder *b, const json_t *root, Error *error) {
    Tekken t = {0};
    if (read_config(&t, root, error) != STATUS_OK ||
        ranks_split(b, t.pattern, t.pattern_length, error) != STATUS_OK ||
        read_words(b, &t, error) != STATUS_OK)
        return STATUS_FAILED;
    return read_specials(b, &t, error);
}

bool tokenizer_is_tekken(const char *bytes, size_t size) {
    static const char key[] = "\"token_bytes\"";
    const char *end = bytes + size, *p = memmem(bytes, size, key, sizeof key - 1);
    /* In a tokenizer.json this may be a token, which has a number after the colon. */
    for (; p; p = memmem(p, (size_t)(end - p), key, sizeof key - 1)) {
        p += sizeof key - 1;
        while (p < end && strchr(" \t\r\n", *p) && *p) p++;
        if (p == end || *p++ != ':') continue;
        while (p < end && strchr(" \t\r\n", *p) && *p) p++;
        if (p < end && *p == '"') return true;
    }
    return false;
}

Status tokenizer_import_tekken(const char *bytes, size_t size, TokenizerBlob *out, Error *error) {
    Builder b;
    json_t *root = NULL;
    *out = (TokenizerBlob){0};
    builder_init(&b);
    Status status = json_parse(&root, "tekken.json", bytes, size, error);
    if (status == STATUS_OK) status = import_tekken(&b, root, error);
    if (status == STATUS_OK) status = tokenizer_write(&b, out, error);
    json_decref(root);
    builder_free(&b);
    return status;
}
