/* Importers of tokenizers: each makes of one format the compact section that tokenizer.h reads.
 *
 * An importer takes bytes or arrays that the caller has read, and returns a section that the caller
 * writes into the model file (aligned to 8 bytes) and frees. The input is untrusted. What the
 * runner could not do exactly as the reference does is refused by name, never approximated
 * silently. docs/tokenizer-section.md specifies the section.
 *
 * The importers are in tokenizer_json.c, tokenizer_gguf.c, tokenizer_spm.c, tokenizer_tekken.c and
 * tokenizer_plain.c.
 */
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

/* Imports tokenizer.json, the tokenizers library's format. tokenizer_config.json (NULL: absent)
 * gives the bos and eos tokens and the added tokens that tokenizer.json lacks. */
Status tokenizer_import_json(const char *tokenizer_json, size_t json_size, const char *config_json,
                             size_t config_size, TokenizerBlob *out, Error *error);

/* Imports the files of transformers' "slow" tokenizers: GPT-2's vocab.json and merges.txt;
 * added_tokens.json and tokenizer_config.json may be NULL. */
Status tokenizer_import_slow(const char *vocab_json, size_t vocab_size, const char *merges_txt,
                             size_t merges_size, const char *added_json, size_t added_size,
                             const char *config_json, size_t config_size, TokenizerBlob *out,
                             Error *error);

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

enum { GGUF_MIDDLES = 3 };

/* The tokenizer.ggml.* keys of a GGUF file. Start from TOKENIZER_GGUF_NONE: what the file lacks
 * stays zero (ids: -1). */
typedef struct TokenizerGguf {
    TokenizerString model, pre;    /* "gpt2", "llama", "t5"...; pre may be empty */
    const TokenizerString *tokens; /* [n_tokens] */
    const float *scores;           /* [n_tokens] or NULL */
    const int32_t *token_types;    /* [n_tokens] of PIECE_*, or NULL */
    size_t n_tokens;
    const TokenizerString *merges; /* [n_merges] "left right", or NULL */
    size_t n_merges;
    int32_t bos_id, eos_id, eot_id, eom_id, unk_id;
    int32_t middle_id[GGUF_MIDDLES]; /* of filling in the middle: padding, repository, separator */
    const int32_t *eos_ids;          /* [n_eos_ids] that end a text beside eos_id, or NULL */
    size_t n_eos_ids;
    /* 0 or 1; -1 where the file does not say */
    int add_bos, add_eos, add_space_prefix, remove_extra_whitespaces;
    const void *precompiled_charsmap; /* or NULL */
    size_t precompiled_charsmap_size;
} TokenizerGguf;

#define TOKENIZER_GGUF_NONE                                                                        \
    ((TokenizerGguf){.bos_id = -1,                                                                 \
                     .eos_id = -1,                                                                 \
                     .eot_id = -1,                                                                 \
                     .eom_id = -1,                                                                 \
                     .unk_id = -1,                                                                 \
                     .middle_id = {-1, -1, -1},                                                    \
                     .add_bos = -1,                                                                \
                     .add_eos = -1,                                                                \
                     .add_space_prefix = -1,                                                       \
                     .remove_extra_whitespaces = -1})

Status tokenizer_import_gguf(const TokenizerGguf *gguf, TokenizerBlob *out, Error *error);
/* Sets the ids of tokens that end no text although a key or their name says so; -1: none. */
void tokenizer_gguf_never_end(const TokenizerGguf *gguf, int64_t ids[2]);

/* Imports a SentencePiece .model file (BPE or Unigram). */
Status tokenizer_import_sentencepiece(const void *bytes, size_t size, TokenizerBlob *out,
                                      Error *error);

/* A special token of a tiktoken vocabulary; .tiktoken files do not hold them. */
typedef struct TokenizerSpecial {
    TokenizerString text;
    int32_t id;
} TokenizerSpecial;

/* Imports a .tiktoken file ("base64 rank" lines), which holds neither its split pattern nor its
 * special tokens. `pattern` is the pattern, as tiktoken takes it, or the name of a public list that
 * has the same one (tiktoken_lists.h). NULL: the file must be a public list, which is told by its
 * hash; the special tokens and ids are then those of the list, and the arguments are ignored.
 * bos_id and eos_id may be -1. */
Status tokenizer_import_tiktoken(const char *bytes, size_t size, const char *pattern,
                                 const TokenizerSpecial *specials, size_t n_specials,
                                 int32_t bos_id, int32_t eos_id, TokenizerBlob *out, Error *error);

/* Imports Mistral's tekken.json. */
Status tokenizer_import_tekken(const char *bytes, size_t size, TokenizerBlob *out, Error *error);
/* Whether a JSON text is a tekken.json, and not a tokenizer.json. */
bool tokenizer_is_tekken(const char *bytes, size_t size);

/* Imports llama2.c's tokenizer.bin, which does not say how many tokens it holds: vocab_size does.
 * The section encodes as llama2.c's `encode` does; id 1 begins, id 2 ends a text. */
Status tokenizer_import_llama2c(const void *bytes, size_t size, size_t vocab_size,
                                TokenizerBlob *out, Error *error);

#endif
