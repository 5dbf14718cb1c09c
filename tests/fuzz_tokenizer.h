/* For fuzz targets of tokenizer importers: what was imported must open, encode and decode. */
#ifndef FUZZ_TOKENIZER_H
#define FUZZ_TOKENIZER_H

#include <stdlib.h>

#include "formats/tokenizers/tokenizer_import.h"
#include "tokenizer.h"

/* Encodes and decodes a text with words, special tokens and bytes that are not UTF-8; aborts where
 * the section that an importer has written is refused. Frees the blob. */
static inline void fuzz_tokenizer(TokenizerBlob *blob) {
    static const char text[] =
        "Hello w\xC3\xB6rld <s>  123\n\xE4\xBD\xA0\xF0\x9F\xA6\x99 \xFF don't";
    Error error;
    Tokenizer *t;
    if (tokenizer_open(&t, blob->bytes, blob->size, &error) != STATUS_OK) abort();
    TokenList ids = {0};
    char *decoded;
    size_t length;
    if (tokenizer_encode(t, text, sizeof text - 1, NULL, 7, &ids, &error) == STATUS_OK &&
        tokenizer_decode(t, ids.ids, ids.length, 0, &decoded, &length, &error) == STATUS_OK)
        free(decoded);
    token_list_free(&ids);
    tokenizer_close(t);
    tokenizer_blob_free(blob);
}

#endif
