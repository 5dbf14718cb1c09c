/* From every source's tokenizer to the one compact section that tokenizer.h reads.
 *
 * Each importer takes bytes or arrays that the caller has read, and gives a section that the
 * caller writes into the model file (aligned to 8 bytes) and frees. The input is a stranger's
 * data. What the runner could not do exactly as the reference does is refused by name, never
 * approximated silently. docs/tokenizer-section.md specifies the section. */
#ifndef TOKENIZER_IMPORT_H
#define TOKENIZER_IMPORT_H

#include "base/status.h"
#include <stdint.h>

/* A finished section. Free with tokenizer_blob_free. */
typedef struct TokenizerBlob {
    void *bytes;
    size_t size;
} TokenizerBlob;

void tokenizer_blob_free(TokenizerBlob *blob);

/* tokenizer.json of the tokenizers library. tokenizer_config.json, NULL where it is absent,
 * gives the bos and eos tokens and added tokens that the former lacks. */
Status tokenizer_import_json(const char *tokenizer_json, size_t json_size, const char *config_json,
                             size_t config_size, TokenizerBlob *out, Error *error);

/* A slow directory: GPT-2's vocab.json and merges.txt; added_tokens.json and
 * tokenizer_config.json may be NULL. */
Status tokenizer_import_slow(const char *vocab_json, size_t vocab_size, const char *merges_txt,
                             size_t merges_size, const char *added_json, size_t added_size,
                             const char *config_json, size_t config_size, TokenizerBlob *out,
                             Error *error);

/* A string that need not be NUL-terminated. */
typedef struct TokenizerString {
    const char *bytes;
    size_t length;
} TokenizerString;

/* The tokenizer.ggml.* keys of a GGUF file; what the file lacks stays zero (ids: -1). Start
 * from TOKENIZER_GGUF_NONE. */
typedef struct TokenizerGguf {
    TokenizerString model, pre;    /* "gpt2", "llama", "t5"...; pre may be empty */
    const TokenizerString *tokens; /* [n_tokens] */
    const float *scores;           /* [n_tokens] or NULL */
    const int32_t *token_types;    /* [n_tokens] or NULL; 1 normal 2 unknown 3 control
                                      4 user-defined 5 unused 6 byte */
    size_t n_tokens;
    const TokenizerString *merges; /* [n_merges] "left right", or NULL */
    size_t n_merges;
    int32_t bos_id, eos_id, eot_id, eom_id, unk_id;
    /* -1 where the file does not say, else 0 or 1 */
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
                     .add_bos = -1,                                                                \
                     .add_eos = -1,                                                                \
                     .add_space_prefix = -1,                                                       \
                     .remove_extra_whitespaces = -1})

Status tokenizer_import_gguf(const TokenizerGguf *gguf, TokenizerBlob *out, Error *error);

/* A SentencePiece .model file (BPE or Unigram). */
Status tokenizer_import_sentencepiece(const void *bytes, size_t size, TokenizerBlob *out,
                                      Error *error);

/* A special token of a tiktoken vocabulary, which the .tiktoken file does not hold. */
typedef struct TokenizerSpecial {
    TokenizerString text;
    int32_t id;
} TokenizerSpecial;

/* A .tiktoken file ("base64 rank" lines) with its split pattern (NULL: Llama 3's, which is
 * cl100k's in another spelling). bos_id and eos_id may be -1. */
Status tokenizer_import_tiktoken(const char *bytes, size_t size, const char *pattern,
                                 const TokenizerSpecial *specials, size_t n_specials,
                                 int32_t bos_id, int32_t eos_id, TokenizerBlob *out, Error *error);

/* llama2.c's tokenizer.bin, which does not say how many tokens it holds. Encodes as llama2.c's
 * `encode` does; id 1 begins, id 2 ends a text. */
Status tokenizer_import_llama2c(const void *bytes, size_t size, size_t vocab_size,
                                TokenizerBlob *out, Error *error);

#endif
