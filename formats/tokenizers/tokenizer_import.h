/* Importers of tokenizers: each makes of one format the compact section that tokenizer.h reads.
 *
 * An importer takes bytes or arrays that the caller has read, and returns a section that the caller
 * writes into the model file (aligned to 8 bytes) and frees. The input is untrusted. What the
 * runner could not do exactly as the reference does is refused by name, never approximated
 * silently. docs/tokenizer-section.md specifies the section.
 *
 * The importers are tokenizer_json.h, tokenizer_gguf.h, tokenizer_spm.h, tokenizer_tekken.h and
 * tokenizer_plain.h; here is what they share. */
#ifndef TOKENIZER_IMPORT_H
#define TOKENIZER_IMPORT_H

#include <stdint.h>
#include <string.h>

#include "base/status.h"

/* Raised when an importer gives another section for the same file: conversions that were kept
 * before are then made again. */
enum { TOKENIZER_IMPORT_REVISION = 3 };

/* A finished section. Free with tokenizer_blob_free. */
typedef struct TokenizerBlob {
    void *bytes;
    size_t size;
} TokenizerBlob;

void tokenizer_blob_free(TokenizerBlob *blob);

/* A string that need not be NUL-terminated. */
typedef struct TokenizerString {
    const char *bytes;
    size_t length;
} TokenizerString;

static inline bool tokenizer_string_is(TokenizerString string, const char *text) {
    return string.length == strlen(text) && memcmp(string.bytes, text, string.length) == 0;
}

/* Kinds of tokens in SentencePiece's models and, with the same numbers, in GGUF's token_type. */
enum {
    PIECE_NORMAL = 1,
    PIECE_UNKNOWN,
    PIECE_CONTROL,
    PIECE_USER_DEFINED,
    PIECE_UNUSED,
    PIECE_BYTE
};

/* A special token of a tiktoken vocabulary; .tiktoken files do not hold them. */
typedef struct TokenizerSpecial {
    TokenizerString text;
    int32_t id;
} TokenizerSpecial;

#endif
