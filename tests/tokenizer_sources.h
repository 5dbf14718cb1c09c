/* Tokenizers from files, for tests: one name for every source format. */
#ifndef TOKENIZER_SOURCES_H
#define TOKENIZER_SOURCES_H

#include "formats/tokenizer_import.h"
#include "tokenizer.h"

/* The whole file with a NUL behind it, or NULL; the caller frees. */
char *source_read(const char *path, size_t *size);

/* Imports `path` as "json", "gguf", "spm", "tiktoken", "llama2c" or "slow" (a directory with
 * vocab.json and merges.txt). */
Status source_import(const char *kind, const char *path, TokenizerBlob *blob, Error *error);

/* The tokenizer.ggml.* keys of a GGUF file in memory, enough of a reader for tests. The strings
 * point into the bytes; the arrays are freed by source_gguf_free. */
bool source_gguf(const char *bytes, size_t size, TokenizerGguf *gguf);
void source_gguf_free(TokenizerGguf *gguf);

/* Path of a file in ../shared/data, or NULL where it is absent. The result is static. */
const char *shared_path(const char *name);

#endif
