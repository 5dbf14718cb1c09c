/* Imports the two formats that are mere lists of tokens: .tiktoken and llama2.c's tokenizer.bin. */
#include "formats/tokenizers/tokenizer_plain.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "formats/tokenizers/tiktoken_lists.h"
#include "formats/tokenizers/tokenizer_ranks.h"
#include "formats/tokenizers/tokenizer_write.h"

/* ---- tiktoken: lines "base64 rank"; bytes merge in the order of the rank of the result ---- */

/* Adds the token of a line "base64 rank". */
static Status tiktoken_line(Builder *b, const char *line, size_t n, size_t number, Error *error) {
    const char *space = memchr(line, ' ', n);
    size_t length = space ? (size_t)(space - line) : n;
    char where[64];
    int64_t rank = 0;
    snprintf(where, sizeof where, "tiktoken: line %zu", number);
    if (length + 1 >= n) return error_set(error, "%s: not a token and a rank", where);
    for (size_t at = length + 1; at < n; at++) {
        if (line[at] < '0' || line[at] > '9' || rank > 1 << 21)
            return error_set(error, "%s: not a rank", where);
        rank = rank * 10 + (line[at] - '0');
    }
    if (length == 1 && line[0] == '=') return STATUS_OK; /* Whisper's list has one empty token */
    return ranks_token(b, rank, rank, line, length, where, error);
}

static Status tiktoken_tokens(Builder *b, const char *bytes, size_t size, Error *error) {
    size_t number = 1;
    for (size_t at = 0; at < size; number++) {
        const char *newline = memchr(bytes + at, '\n', size - at);
        size_t n = newline ? (size_t)(newline - bytes) - at : size - at, end = at + n + 1;
        if (n > 0 && bytes[at + n - 1] == '\r') n--;
        if (n > 0 && tiktoken_line(b, bytes + at, n, number, error) != STATUS_OK)
            return STATUS_FAILED;
        at = end;
    }
    return ranks_finish(b, "tiktoken", error);
}

/* A public list, with all that belongs to it. */
static Status import_public(Builder *b, const char *bytes, size_t size, const TiktokenList *list,
                            Error *error) {
    const TextRange none = {0, 0};
    if (list->nfc) builder_normalizer(b, NORMALIZE_NFC, 0, none, none);
    if (ranks_split(b, list->pattern, strlen(list->pattern), error) != STATUS_OK ||
        tiktoken_tokens(b, bytes, size, error) != STATUS_OK)
        return STATUS_FAILED;
    for (size_t i = 0; i < TIKTOKEN_MOST_SPECIALS && list->specials[i].text; i++) {
        const char *text = list->specials[i].text;
        int32_t id = list->specials[i].id;
        if (ranks_special(b, id, text, strlen(text), error) != STATUS_OK) return STATUS_FAILED;
        if (list->specials[i].ends) builder_eos(b, id);
    }
    ranks_begin(b, list->bos_id);
    return STATUS_OK;
}

/* Imports a tiktoken list of tokens. `pattern` is a regular expression or the name of a public
 * list whose pattern is meant; NULL: the list itself must be a public one, which has its own
 * special tokens. */
static Status import_tiktoken(Builder *b, const char *bytes, size_t size, const char *pattern,
                              const TokenizerSpecial *specials, size_t n_specials, int32_t bos_id,
                              int32_t eos_id, Error *error) {
    const TiktokenList *list =
        pattern ? tiktoken_list_named(pattern) : tiktoken_list_of(bytes, size);
    if (!pattern && !list) {
        char names[200];
        tiktoken_list_names(names, sizeof names);
        return error_set(error,
                         "a tiktoken list does not say how text is split, and this one is none of "
                         "%s: give --split-pattern, a pattern or one of these names",
                         names);
    }
    if (!pattern) return import_public(b, bytes, size, list, error);
    if (list) pattern = list->pattern;
    if (ranks_split(b, pattern, strlen(pattern), error) != STATUS_OK ||
        tiktoken_tokens(b, bytes, size, error) != STATUS_OK)
        return STATUS_FAILED;
    for (size_t i = 0; i < n_specials; i++) {
        TokenizerString text = specials[i].text;
        if (ranks_special(b, specials[i].id, text.bytes, text.length, error) != STATUS_OK)
            return STATUS_FAILED;
    }
    ranks_begin(b, bos_id);
    builder_eos(b, eos_id);
    return STATUS_OK;
}

Status tokenizer_import_tiktoken(const char *bytes, size_t size, const char *pattern,
                                 const TokenizerSpecial *specials, size_t n_specials,
                                 int32_t bos_id, int32_t eos_id, TokenizerBlob *out, Error *error) {
    Builder b;
    *out = (TokenizerBlob){0};
    builder_init(&b);
    Status status =
        import_tiktoken(&b, bytes, size, pattern, specials, n_specials, bos_id, eos_id, error);
    if (status == STATUS_OK) status = tokenizer_write(&b, out, error);
    builder_free(&b);
    return status;
}

/* ---- llama2.c: int32 longest length; for each token float score, int32 length, bytes ---- */

/* Reads the tokens of a llama2.c tokenizer, with their scores. The file must hold exactly
 * vocab_size tokens. */
static Status read_llama2c(Builder *b, const char *p, size_t size, size_t vocab_size,
                           Error *error) {
    const char *end = p + size;
    if (size < 4) return error_set(error, "tokenizer.bin: shorter than 4 bytes");
    p += 4;
    for (size_t i = 0; i < vocab_size; i++) {
        float score;
        int32_t n;
        if (end - p < 8) return error_set(error, "tokenizer.bin: ends within token %zu", i);
        memcpy(&score, p, 4);
        memcpy(&n, p + 4, 4);
        p += 8;
        if (n < 0 || n > end - p || !isfinite(score))
            return error_set(error, "tokenizer.bin: damaged token %zu", i);
        if (builder_token(b, (int64_t)i, p, (size_t)n, score, n > 0 ? BUILD_IN_MODEL : 0, error) !=
            STATUS_OK)
            return STATUS_FAILED;
        p += n;
    }
    if (p < end)
        return error_set(error, "tokenizer.bin: holds more than the %zu tokens of the model",
                         vocab_size);
    return STATUS_OK;
}

/* Imports llama2.c's tokenizer.bin as a BPE tokenizer in the manner of Llama 2's sentencepiece
 * model: tokens merge in the order of their scores, unknown characters become bytes, tokens 0 to 2
 * are special. */
static Status import_llama2c(Builder *b, const void *bytes, size_t size, size_t vocab_size,
                             Error *error) {
    static const char *const specials[3] = {"<unk>", "<s>", "</s>"};
    const TextRange none = {0, 0};
    if (vocab_size < 3 + 256 || vocab_size > 1 << 21)
        return error_set(error, "tokenizer.bin: %zu tokens cannot hold every byte", vocab_size);
    if (read_llama2c(b, bytes, size, vocab_size, error) != STATUS_OK) return STATUS_FAILED;
    TextRange space = builder_text(b, " ", 1);
    b->header.model = MODEL_BPE;
    b->header.flags = SECTION_BYTE_FALLBACK | SECTION_STRIP_AFTER_BOS;
    b->header.bos_id = 1;
    b->has_bytes = true;
    for (uint32_t byte = 0; byte < 256; byte++) b->bytes[byte] = byte + 3;
    builder_normalizer(b, NORMALIZE_PREPEND, 0, space, none);
    builder_index(b);
    builder_merges_by_score(b);
    builder_decoder(b, DECODER_BYTE_FALLBACK, none, none, 0, 0);
    builder_decoder(b, DECODER_FUSE, none, none, 0, 0);
    builder_decoder(b, DECODER_STRIP, space, none, 1, 0);
    for (uint32_t id = 0; id < 3; id++)
        builder_added(b, id, ADDED_SPECIAL, specials[id], strlen(specials[id]));
    builder_prefix(b, 1);
    builder_eos(b, 2);
    return STATUS_OK;
}

Status tokenizer_import_llama2c(const void *bytes, size_t size, size_t vocab_size,
                                TokenizerBlob *out, Error *error) {
    Builder b;
    *out = (TokenizerBlob){0};
    builder_init(&b);
    Status status = import_llama2c(&b, bytes, size, vocab_size, error);
    if (status == STATUS_OK) status = tokenizer_write(&b, out, error);
    builder_free(&b);
    return status;
}
