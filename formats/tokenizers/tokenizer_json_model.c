#include "formats/tokenizers/tokenizer_json_model.h"

#include <stdlib.h>

#include "base/unicode.h"

/* ---- Vocabularies ---- */

static Status read_vocab(JsonImport *im) {
    const char *token;
    json_t *id;
    if (!json_is_object(im->vocab)) return error_set(im->error, "tokenizer.json: model: no vocab");
    json_object_foreach(im->vocab, token, id) {
        if (!json_is_integer(id))
            return error_set(im->error, "tokenizer.json: vocab: '%s' has no id", token);
        if ((size_t)json_integer_value(id) > 65536 + 64 * json_object_size(im->vocab))
            return error_set(im->error,
                             "tokenizer.json: vocab: '%.100s' has id %lld among %zu tokens", token,
                             (long long)json_integer_value(id), json_object_size(im->vocab));
        if (builder_token(&im->b, json_integer_value(id), token, strlen(token), 0, BUILD_IN_MODEL,
                          im->error) != STATUS_OK)
            return STATUS_FAILED;
    }
    return STATUS_OK;
}

/* The member whose key is key[n]; NULL: none. */
static const json_t *object_get(const json_t *object, const char *key, size_t n) {
#if JANSSON_VERSION_HEX >= 0x020E00
    return json_object_getn(object, key, n);
#else /* Ubuntu 22.04 has 2.13 */
    char *copy = memchr(key, '\0', n) ? NULL : strndup(key, n);
    const json_t *value = copy ? json_object_get(object, copy) : NULL;
    free(copy);
    return value;
#endif
}

int64_t json_import_id(const JsonImport *im, const char *token, size_t n) {
    if (im->vocab) {
        const json_t *id = object_get(im->vocab, token, n);
        return json_is_integer(id) ? (int64_t)json_integer_value(id) : -1;
    }
    uint32_t id = builder_find(&im->b, token, n);
    return id == TOKENIZER_NONE ? -1 : (int64_t)id;
}

static void read_unk(JsonImport *im, const json_t *model) {
    const json_t *unk = json_object_get(model, "unk_token");
    if (json_is_string(unk))
        im->b.header.unk_id =
            (int32_t)json_import_id(im, json_string_value(unk), json_string_length(unk));
}

/* Whether, after the mapping to ByteLevel's alphabet, text is only split: then every word can be
 * mapped back to bytes. */
static bool only_splits_after_map(const Builder *b) {
    bool mapped = false;
    for (size_t i = 0; i < b->n_normalizers; i++) {
        if (mapped) return false;
        mapped = b->normalizers[i].op == NORMALIZE_MAP_BYTES;
    }
    for (size_t i = 0; i < b->n_splits; i++) {
        if (mapped && b->splits[i].op != SPLIT_PATTERN) return false;
        mapped = mapped || b->splits[i].op == SPLIT_MAP_BYTES;
    }
    return mapped;
}

/* Makes the vocabulary byte-level where the runner can use the bytes themselves: there are no
 * affixes and no byte falls back to another token. */
static void choose_byte_level(JsonImport *im, bool byte_fallback) {
    Builder *b = &im->b;
    bool complete = true;
    for (unsigned byte = 0; byte < 256; byte++) {
        TextBuffer character = {0};
        bytelevel_map(&character, &(char){(char)byte}, 1, NULL);
        complete = complete && !character.failed &&
                   json_import_id(im, character.bytes, character.length) >= 0;
        text_free(&character);
    }
    if (!only_splits_after_map(b) || b->header.subword_prefix.length ||
        b->header.word_suffix.length || (byte_fallback && !complete))
        return;
    b->header.flags |= SECTION_BYTE_LEVEL;
    b->header.flags &= ~(uint32_t)SECTION_BYTE_FALLBACK;
    if (b->n_splits > 0 && b->splits[b->n_splits - 1].op == SPLIT_MAP_BYTES)
        b->n_splits--; /* the words are bytes already: the mapping can go */
    else
        b->header.flags |= SECTION_UNMAP;
    builder_byte_keys(b);
}

/* Adds a merge, given the texts of its halves. */
static Status read_merge(JsonImport *im, size_t rank, const char *left, size_t n_left,
                         const char *right, size_t n_right) {
    Builder *b = &im->b;
    int64_t l = json_import_id(im, left, n_left), r = json_import_id(im, right, n_right);
    size_t skip = b->header.subword_prefix.length;
    char joined[2 * SECTION_MAX_PIECE];
    if (l < 0 || r < 0 || n_left > SECTION_MAX_PIECE || n_right > SECTION_MAX_PIECE ||
        n_right < skip)
        return error_set(im->error, "tokenizer.json: merge %zu: '%.*s' is not in the vocabulary",
                         rank, (int)(l < 0 ? n_left : n_right), l < 0 ? left : right);
    memcpy(joined, left, n_left);
    memcpy(joined + n_left, right + skip, n_right - skip);
    int64_t into = json_import_id(im, joined, n_left + n_right - skip);
    if (into < 0)
        return error_set(im->error, "tokenizer.json: merge %zu: '%.*s' is not in the vocabulary",
                         rank, (int)(n_left + n_right - skip), joined);
    builder_merge(b, (uint32_t)l, (uint32_t)r, (uint32_t)rank, (uint32_t)into);
    return STATUS_OK;
}

static Status read_merge_line(JsonImport *im, size_t rank, const char *line, size_t n) {
    const char *space = memchr(line, ' ', n);
    size_t left = space ? (size_t)(space - line) : n;
    if (!space || memchr(space + 1, ' ', n - left - 1))
        return error_set(im->error, "tokenizer.json: merge %zu is not two tokens", rank);
    return read_merge(im, rank, line, left, space + 1, n - left - 1);
}

/* Reads the merges of a BPE model, each a text "LEFT RIGHT" or a list of two texts. Their order
 * gives their ranks. */
static Status read_merges(JsonImport *im, const json_t *merges) {
    size_t rank = 0;
    if (!json_is_array(merges)) return error_set(im->error, "tokenizer.json: model: no merges");
    for (size_t i = 0; i < json_array_size(merges); i++) {
        const json_t *merge = json_array_get(merges, i);
        const json_t *left = json_array_get(merge, 0), *right = json_array_get(merge, 1);
        Status status;
        if (json_is_string(merge)) {
            const char *line = json_string_value(merge);
            if (!strncmp(line, "#version", 8)) continue;
            status = read_merge_line(im, rank, line, json_string_length(merge));
        } else if (json_is_string(left) && json_is_string(right)) {
            status = read_merge(im, rank, json_string_value(left), json_string_length(left),
                                json_string_value(right), json_string_length(right));
        } else {
            status = error_set(im->error, "tokenizer.json: merge %zu is not two tokens", i);
        }
        if (status != STATUS_OK) return status;
        rank++;
    }
    return STATUS_OK;
}

/* Reads the settings and the vocabulary of a BPE model, and decides whether it works on bytes
 * (byte level). The merges are not read here. */
static Status read_bpe(JsonImport *im, const json_t *model) {
    Builder *b = &im->b;
    bool byte_fallback = json_flag(model, "byte_fallback", false);
    const json_t *dropout = json_object_get(model, "dropout");
    if (json_is_number(dropout) && json_number_value(dropout) > 0)
        return error_set(im->error, "tokenizer.json: BPE: dropout would make encoding random");
    b->header.model = MODEL_BPE;
    b->header.subword_prefix = json_import_text(im, model, "continuing_subword_prefix");
    b->header.word_suffix = json_import_text(im, model, "end_of_word_suffix");
    if (b->header.subword_prefix.length > SECTION_MAX_AFFIX ||
        b->header.word_suffix.length > SECTION_MAX_AFFIX)
        return error_set(
            im->error,
            "tokenizer.json: continuing_subword_prefix or end_of_word_suffix is longer "
            "than %d bytes",
            SECTION_MAX_AFFIX);
    if (json_flag(model, "fuse_unk", false)) b->header.flags |= SECTION_FUSE_UNK;
    if (json_flag(model, "ignore_merges", false)) b->header.flags |= SECTION_IGNORE_MERGES;
    if (byte_fallback) b->header.flags |= SECTION_BYTE_FALLBACK;
    im->vocab = json_object_get(model, "vocab");
    if (read_vocab(im) != STATUS_OK) return STATUS_FAILED;
    read_unk(im, model);
    choose_byte_level(im, byte_fallback);
    if (!(b->header.flags & SECTION_BYTE_LEVEL)) {
        builder_index(b);
        if (byte_fallback) builder_byte_tokens(b);
    }
    return STATUS_OK;
}

/* Reads a Unigram model: its pieces with their scores. The unknown token scores 10 less than the
 * lowest of them. */
static Status read_unigram(JsonImport *im, const json_t *model) {
    Builder *b = &im->b;
    const json_t *vocab = json_object_get(model, "vocab"), *unk = json_object_get(model, "unk_id");
    double least = 0;
    b->header.model = MODEL_UNIGRAM;
    if (!json_is_array(vocab)) return error_set(im->error, "tokenizer.json: Unigram: no vocab");
    for (size_t i = 0; i < json_array_size(vocab); i++) {
        const json_t *item = json_array_get(vocab, i), *piece = json_array_get(item, 0);
        double score = json_number_value(json_array_get(item, 1));
        if (!json_is_string(piece) || !json_is_number(json_array_get(item, 1)))
            return error_set(im->error, "tokenizer.json: Unigram: piece %zu", i);
        if (builder_token(b, (int64_t)i, json_string_value(piece), json_string_length(piece), score,
                          BUILD_IN_MODEL | BUILD_PIECE, im->error) != STATUS_OK)
            return STATUS_FAILED;
        if (i == 0 || score < least) least = score;
    }
    b->header.unk_score = least - 10;
    if (json_is_integer(unk)) {
        if (json_integer_value(unk) < 0 || json_integer_value(unk) >= b->header.n_tokens)
            return error_set(im->error, "tokenizer.json: Unigram: unk_id");
        b->header.unk_id = (int32_t)json_integer_value(unk);
    }
    builder_index(b);
    if (json_flag(model, "byte_fallback", false)) {
        b->header.flags |= SECTION_BYTE_FALLBACK;
        builder_byte_tokens(b);
    }
    return STATUS_OK;
}

Status json_import_model(JsonImport *im, const json_t *model) {
    const char *type = json_string_value(json_object_get(model, "type"));
    if (!type) type = json_object_get(model, "merges") ? "BPE" : "(no type)";
    if (!strcmp(type, "Unigram")) return read_unigram(im, model);
    if (!strcmp(type, "WordLevel")) {
        im->b.header.model = MODEL_WORDLEVEL;
        im->vocab = json_object_get(model, "vocab");
        if (read_vocab(im) != STATUS_OK) return STATUS_FAILED;
        read_unk(im, model);
        builder_index(&im->b);
        return STATUS_OK;
    }
    if (strcmp(type, "BPE") != 0)
        return error_set(im->error, "tokenizer.json: model %s is not supported", type);
    if (read_bpe(im, model) != STATUS_OK) return STATUS_FAILED;
    return read_merges(im, json_object_get(model, "merges"));
}

Status json_import_slow_model(JsonImport *im, json_t *vocab, const char *merges, size_t size) {
    size_t rank = 0;
    im->b.header.model = MODEL_BPE;
    im->vocab = vocab;
    if (read_vocab(im) != STATUS_OK) return STATUS_FAILED;
    choose_byte_level(im, false);
    for (size_t at = 0; at < size;) {
        const char *newline = memchr(merges + at, '\n', size - at);
        size_t n = newline ? (size_t)(newline - merges) - at : size - at;
        const char *line = merges + at;
        at += n + 1;
        if (n > 0 && line[n - 1] == '\r') n--;
        if (n == 0 || (n >= 8 && !memcmp(line, "#version", 8))) continue;
        if (read_merge_line(im, rank++, line, n) != STATUS_OK) return STATUS_FAILED;
    }
    return STATUS_OK;
}
