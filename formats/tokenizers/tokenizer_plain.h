/* Lists of tokens and nothing else (tokenizer_import.h). */
#ifndef TOKENIZER_PLAIN_H
#define TOKENIZER_PLAIN_H

#include "formats/tokenizers/tokenizer_import.h"

/* Imports a .tiktoken file ("base64 rank" lines), which holds neither its split pattern nor its
 * special tokens. `pattern` is the pattern, as tiktoken takes it, or the name of a public list that
 * has the same one (tiktoken_lists.h). NULL: the file must be a public list, which is told by its
 * hash; the special tokens and ids are then those of the list, and the arguments are ignored.
 * bos_id and eos_id may be -1. */
Status tokenizer_import_tiktoken(const char *bytes, size_t size, const char *pattern,
                                 const TokenizerSpecial *specials, size_t n_specials,
                                 int32_t bos_id, int32_t eos_id, TokenizerBlob *out, Error *error);

/* Imports llama2.c's tokenizer.bin, which does not say how many tokens it holds: vocab_size does.
 * The section encodes as llama2.c's `encode` does; id 1 begins, id 2 ends a text. */
Status tokenizer_import_llama2c(const void *bytes, size_t size, size_t vocab_size,
                                TokenizerBlob *out, Error *error);

#endif
