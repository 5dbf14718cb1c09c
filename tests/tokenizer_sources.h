/* Imports tokenizers from files of any source format, for the tests. */
#ifndef TOKENIZER_SOURCES_H
#define TOKENIZER_SOURCES_H

#include "formats/tokenizers/tokenizer_gguf.h"
#include "formats/tokenizers/tokenizer_import.h"
#include "tokenizer.h"

/* Reads a whole file into a NUL-terminated buffer that the caller frees; NULL: it cannot be
 * read. */
char *source_read(const char *path, size_t *size);

/* Imports `path` as "json", "gguf", "spm", "tiktoken", "llama2c" or "slow" (a directory with
 * vocab.json and merges.txt). */
Status source_import(const char *kind, const char *path, TokenizerBlob *blob, Error *error);

/* Reads the tokenizer.ggml.* keys of a GGUF file in memory, as far as the tests need them. The
 * strings point into `bytes`; source_gguf_free frees the arrays. */
bool source_gguf(const char *bytes, size_t size, TokenizerGguf *gguf);
void source_gguf_free(TokenizerGguf *gguf);

/* Opens an imported tokenizer; fails the test when it cannot. */
Tokenizer *source_tokenizer(const TokenizerBlob *blob);

/* Fails the test unless the n bytes of `text`, of which from_template says which are a template's
 * (NULL: none), become these ids. */
void source_assert_ids(Tokenizer *tokenizer, const char *text, size_t n,
                       const uint8_t *from_template, unsigned flags, const int32_t *ids,
                       size_t count);

/* Returns the path of a file in ../shared/data, or NULL when it is absent. The string is static. */
const char *shared_path(const char *name);

#endif
