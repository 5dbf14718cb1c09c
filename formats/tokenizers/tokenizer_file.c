#include "formats/tokenizers/tokenizer_file.h"

#include <string.h>

#include "formats/tokenizers/tiktoken_lists.h"
#include "core/modelfile.h"
#include "formats/tokenizers/tokenizer_json.h"
#include "formats/tokenizers/tokenizer_plain.h"
#include "formats/tokenizers/tokenizer_spm.h"
#include "formats/tokenizers/tokenizer_tekken.h"

static Status import(const InputFile *file, const char *pattern, size_t vocab_size,
                     TokenizerBlob *out, Error *error) {
    const char *bytes = (const char *)file->map;
    size_t size = (size_t)file->bytes;
    if (size >= 8 && (memcmp(bytes, MODELFILE_MAGIC, 8) == 0 || memcmp(bytes, "GGUF", 4) == 0))
        return error_set(error, "is a model, not a tokenizer");
    if (tiktoken_list_begins(bytes, size) || ends_with(file->path, ".tiktoken"))
        return tokenizer_import_tiktoken(bytes, size, pattern, NULL, 0, -1, -1, out, error);
    if (pattern)
        return error_set(error, "--split-pattern is for tiktoken lists, and this file is none");
    if (bytes[0] == '{' && tokenizer_is_tekken(bytes, size))
        return tokenizer_import_tekken(bytes, size, out, error);
    if (bytes[0] == '{') return tokenizer_import_json(bytes, size, NULL, 0, out, error);
    /* SentencePiece begins with field 1 of a protobuf and its length, llama2.c with an int32 below
     * 256. */
    if (bytes[0] == 0x0A && size > 1 && bytes[1] != 0)
        return tokenizer_import_sentencepiece(bytes, size, out, error);
    return tokenizer_import_llama2c(bytes, size, vocab_size, out, error);
}

Status tokenizer_from_file(const InputFile *file, const char *pattern, size_t vocab_size,
                           TokenizerBlob *out, Error *error) {
    if (import(file, pattern, vocab_size, out, error) == STATUS_OK) return STATUS_OK;
    if (strncmp(error->text, file->path, strlen(file->path)) == 0) return STATUS_FAILED;
    return error_prefix(error, "%s", file->path);
}
