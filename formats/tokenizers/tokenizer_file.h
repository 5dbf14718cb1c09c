/* A tokenizer file that the user names, in any format that an importer reads. */
#ifndef FORMATS_TOKENIZERS_TOKENIZER_FILE_H
#define FORMATS_TOKENIZERS_TOKENIZER_FILE_H

#include "formats/containers/input.h"
#include "formats/tokenizers/tokenizer_import.h"

/* Imports the tokenizer; tells its format (tokenizer.json, tekken.json, tiktoken, SentencePiece,
 * llama2.c) by what the file holds. `pattern` (NULL: not given) is for tiktoken lists that are not
 * public, as in tokenizer_import_tiktoken. `vocab_size` is the model's: llama2.c's format does not
 * say. Free with tokenizer_blob_free. */
Status tokenizer_from_file(const InputFile *file, const char *pattern, size_t vocab_size,
                           TokenizerBlob *out, Error *error);

#endif
