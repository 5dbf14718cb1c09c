/* Tokenizers of GGUF files (tokenizer_import.h). */
#ifndef TOKENIZER_GGUF_H
#define TOKENIZER_GGUF_H

#include "formats/tokenizers/tokenizer_import.h"

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

/* Imports the tokenizer that the keys describe. */
Status tokenizer_import_gguf(const TokenizerGguf *gguf, TokenizerBlob *out, Error *error);
/* Sets the ids of tokens that end no text although a key or their name says so; -1: none. */
void tokenizer_gguf_never_end(const TokenizerGguf *gguf, int64_t ids[2]);

#endif
