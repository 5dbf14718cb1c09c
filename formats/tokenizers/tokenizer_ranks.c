#include "formats/tokenizers/tokenizer_ranks.h"

#include "base/base64.h"
#include "formats/tokenizers/tokenizer_regex.h"

Status ranks_split(Builder *b, const char *pattern, size_t n, Error *error) {
    TextRange split;
    if (regex_translate(b, pattern, n, REGEX_RUST, &split, error) != STATUS_OK)
        return STATUS_FAILED;
    builder_split(b, SPLIT_PATTERN, SPLIT_REMOVED | SPLIT_INVERT, split);
    return STATUS_OK;
}

Status ranks_token(Builder *b, int64_t id, int64_t rank, const char *base64, size_t n,
                   const char *where, Error *error) {
    char key[SECTION_MAX_PIECE + 2]; /* the end of its base64 may be padding */
    size_t length;
    if (n / 4 * 3 > sizeof key)
        return error_set(error, "%s: a token of more than %zu bytes", where,
                         (size_t)SECTION_MAX_PIECE);
    if (!base64_decode(base64, n, key, &length)) return error_set(error, "%s: not base64", where);
    if (length == 0) return error_set(error, "%s: a token without bytes", where);
    return builder_token(b, id, key, length, -(double)rank, BUILD_IN_MODEL, error);
}

Status ranks_finish(Builder *b, const char *where, Error *error) {
    b->header.model = MODEL_BPE;
    b->header.flags = SECTION_BYTE_LEVEL | SECTION_IGNORE_MERGES;
    builder_index(b);
    builder_byte_symbols(b);
    for (unsigned byte = 0; byte < 256; byte++)
        if (b->bytes[byte] == TOKENIZER_NONE)
            return error_set(error, "%s: byte %u has no token", where, byte);
    builder_merges_by_score(b);
    return STATUS_OK;
}

Status ranks_special(Builder *b, int64_t id, const char *text, size_t n, Error *error) {
    if (builder_token(b, id, text, n, 0, 0, error) != STATUS_OK) return STATUS_FAILED;
    builder_added(b, (uint32_t)id, ADDED_SPECIAL, text, n);
    return STATUS_OK;
}

void ranks_begin(Builder *b, int64_t id) {
    if (id < 0 || id >= (int64_t)b->header.n_tokens) return;
    b->header.bos_id = (int32_t)id;
    builder_prefix(b, id);
}
