#include "formats/tokenizers/own_vocabulary.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/unicode.h"
#include "formats/tokenizers/tokenizer_json.h"
#include "json/json_object.h"

/* ---- Pieces of a text ------------------------------------------------------------------------ */

typedef enum Unit { CHARACTERS, WORDS, LINES } Unit;

typedef struct Piece {
    const char *bytes;
    size_t length;
} Piece;

typedef struct Pieces {
    Piece *items;
    size_t n, capacity;
} Pieces;

static bool is_white(char c) {
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* The next character, word or line of bytes[n] from *at on; false: there is none. A line has no
 * line break, but "\n" alone stands for one. */
static bool next_piece(const char *bytes, size_t n, size_t *at, Unit unit, Piece *piece) {
    size_t i = *at;
    while (unit == WORDS && i < n && is_white(bytes[i])) i++;
    if (i >= n) return false;
    size_t end = i;
    if (unit == LINES) {
        while (end < n && bytes[end] != '\n') end++;
        *at = end + 1;
        if (end > i && bytes[end - 1] == '\r') end--;
    } else if (unit == WORDS) {
        while (end < n && !is_white(bytes[end])) end++;
        *at = end;
    } else {
        uint32_t c;
        size_t length = utf8_decode(bytes + i, n - i, &c);
        end = i + (length ? length : 1);
        *at = end;
    }
    *piece = (Piece){bytes + i, end - i};
    return true;
}

/* Compares pieces by their bytes; of UTF-8 that is the order of code points. */
static int compare_pieces(const void *a, const void *b) {
    const Piece *x = a, *y = b;
    size_t n = x->length < y->length ? x->length : y->length;
    int order = memcmp(x->bytes, y->bytes, n);
    return order ? order : (x->length > y->length) - (x->length < y->length);
}

/* Sorts the pieces and removes duplicates. */
static void sort_unique(Pieces *pieces) {
    size_t kept = 0;
    if (pieces->n == 0) return;
    qsort(pieces->items, pieces->n, sizeof *pieces->items, compare_pieces);
    for (size_t i = 0; i < pieces->n; i++)
        if (i == 0 || compare_pieces(&pieces->items[kept - 1], &pieces->items[i]) != 0)
            pieces->items[kept++] = pieces->items[i];
    pieces->n = kept;
}

/* Makes room for one more piece. Duplicates are removed first (not among lines), so that a text of
 * gigabytes needs little memory. Fails where more than `most` pieces are left. */
static Status make_room(Pieces *pieces, Unit unit, size_t most, const char *path, Error *error) {
    enum { ADDED = 1 << 16 };
    if (pieces->n < pieces->capacity) return STATUS_OK;
    if (unit != LINES) sort_unique(pieces);
    if (pieces->n > most)
        return error_set(error, "%s: more tokens than the %zu of the model", path, most);
    if (pieces->capacity > 0 && pieces->n < pieces->capacity / 2) return STATUS_OK;
    return array_reserve(&pieces->items, &pieces->capacity, pieces->capacity + ADDED,
                         sizeof *pieces->items)
               ? STATUS_OK
               : error_set(error, "%s: no memory for a vocabulary", path);
}

/* Splits a file into its lines, in the file's order, or into its different characters or words,
 * sorted. Fails where there are more than `most`. */
static Status vocabulary_split(Pieces *pieces, const InputFile *file, Unit unit, size_t most,
                               Error *error) {
    const char *bytes = (const char *)file->map;
    size_t n = (size_t)file->bytes, at = 0;
    bool seen[256] = {false}; /* pieces of one byte: most characters need no sorting */
    Piece piece;
    while (next_piece(bytes, n, &at, unit, &piece)) {
        bool *is_seen = piece.length == 1 ? &seen[(unsigned char)piece.bytes[0]] : NULL;
        if (unit != LINES && is_seen && *is_seen) continue;
        if (make_room(pieces, unit, most, file->path, error) != STATUS_OK) return STATUS_FAILED;
        pieces->items[pieces->n++] = piece;
        if (is_seen) *is_seen = true;
    }
    if (unit != LINES) sort_unique(pieces);
    return STATUS_OK;
}

/* ---- The vocabulary -------------------------------------------------------------------------- */

static Status vocabulary_add(json_t *vocab, const char *bytes, size_t n, Error *error) {
    size_t id = json_object_size(vocab);
    char *name = strndup(bytes, n);
    Status status = STATUS_OK;
    if (!name || strlen(name) != n) {
        status = error_set(error, "the vocabulary's token %zu holds a zero byte", id);
    } else if (json_object_get(vocab, name)) {
        status = error_set(error, "the vocabulary has '%.60s' twice", name);
    } else if (json_object_set_new(vocab, name, json_integer((json_int_t)id)) != 0) {
        status = error_set(error, "the vocabulary's token %zu is not UTF-8", id);
    }
    free(name);
    return status;
}

/* Fills vocab with the pieces of a file. */
static Status fill_from_file(json_t *vocab, const InputFile *file, Unit unit, size_t vocab_size,
                             Error *error) {
    Pieces pieces = {0};
    Status status = vocabulary_split(&pieces, file, unit, vocab_size, error);
    if (status != STATUS_OK) {
        free(pieces.items);
        return status;
    }
    for (size_t i = 0; status == STATUS_OK && i < pieces.n; i++)
        status = vocabulary_add(vocab, pieces.items[i].bytes, pieces.items[i].length, error);
    free(pieces.items);
    return status == STATUS_OK ? STATUS_OK : error_prefix(error, "%s", file->path);
}

/* Fills vocab with config.json's list of tokens. *words: some are not single characters. */
static Status fill_from_list(json_t *vocab, const json_t *list, bool *words, Error *error) {
    size_t i;
    const json_t *token;
    Status status = STATUS_OK;
    *words = false;
    json_array_foreach((json_t *)list, i, token) {
        const char *text = json_string_value(token);
        uint32_t c;
        if (!text) return error_set(error, "config.json: vocabulary: token %zu is no text", i);
        size_t n = json_string_length(token);
        if (n == 0 || utf8_decode(text, n, &c) != n) *words = true;
        status = vocabulary_add(vocab, text, n, error);
        if (status != STATUS_OK) return error_prefix(error, "config.json");
    }
    return status;
}

/* Fills vocab with the ids themselves, as decimal numbers. */
static Status fill_from_ids(json_t *vocab, size_t vocab_size, Error *error) {
    char number[24];
    Status status = STATUS_OK;
    for (size_t i = 0; status == STATUS_OK && i < vocab_size; i++)
        status =
            vocabulary_add(vocab, number, (size_t)snprintf(number, sizeof number, "%zu", i), error);
    return status;
}

/* Fills vocab with tokens and their ids, as config.json's "vocabulary" says. *words: a tokenizer
 * splits texts at white space, else into characters. */
static Status vocabulary_fill(json_t *vocab, const json_t *config, const InputFile *list,
                              const InputFile *text, size_t vocab_size, bool *words, Error *error) {
    const json_t *value = json_value(config, "vocabulary");
    const char *kind = json_string_value(value);
    *words = true;
    if (json_is_array(value)) return fill_from_list(vocab, value, words, error);
    if (!value || (kind && strcmp(kind, "ids") == 0))
        return fill_from_ids(vocab, vocab_size, error);
    if (!kind || (strcmp(kind, "characters") != 0 && strcmp(kind, "words") != 0))
        return error_set(error, "config.json: vocabulary is not \"characters\", \"words\", \"ids\" "
                                "or a list of tokens");
    *words = strcmp(kind, "words") == 0;
    if (!list && !text)
        return error_set(error, "config.json: vocabulary: the directory has neither vocabulary.txt "
                                "(a token a line) nor input.txt (the text that was learned)");
    Unit unit = list ? LINES : *words ? WORDS : CHARACTERS;
    return fill_from_file(vocab, list ? list : text, unit, vocab_size, error);
}

Status own_vocabulary_import(const json_t *config, const InputFile *list, const InputFile *text,
                             size_t vocab_size, TokenizerBlob *out, Error *error) {
    json_t *vocab = json_object();
    bool words = true;
    if (!vocab) return error_set(error, "no memory for a vocabulary");
    Status status = vocabulary_fill(vocab, config, list, text, vocab_size, &words, error);
    if (status == STATUS_OK && json_object_size(vocab) != vocab_size)
        status = error_set(error, "the vocabulary has %zu tokens, but the model %zu",
                           json_object_size(vocab), vocab_size);
    const char *unknown = json_object_get(vocab, "<unk>") ? "<unk>" : NULL;
    json_t *json = NULL;
    if (status == STATUS_OK)
        json = words ? json_pack("{s:s, s:{s:s}, s:n, s:{s:s, s:O, s:s*}}", "version", "1.0",
                                 "pre_tokenizer", "type", "WhitespaceSplit", "decoder", "model",
                                 "type", "WordLevel", "vocab", vocab, "unk_token", unknown)
                     : json_pack("{s:s, s:{s:s, s:{s:s}, s:s, s:b}, s:{s:s}, s:{s:s, s:O, s:s*}}",
                                 "version", "1.0", "pre_tokenizer", "type", "Split", "pattern",
                                 "Regex", "[\\s\\S]", "behavior", "Isolated", "invert", 0,
                                 "decoder", "type", "Fuse", "model", "type", "WordLevel", "vocab",
                                 vocab, "unk_token", unknown);
    char *written = json ? json_dumps(json, JSON_COMPACT) : NULL;
    if (status == STATUS_OK && !written) status = error_set(error, "no memory for a vocabulary");
    if (status == STATUS_OK)
        status = tokenizer_import_json(written, strlen(written), NULL, 0, out, error);
    free(written);
    json_decref(json);
    json_decref(vocab);
    return status;
}
