/* Imports tekken.json of any bytes; what is accepted must encode and decode. */
#include "formats/tokenizer_import.h"
#include "tokenizer.h"
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char text[] =
        "Hello w\xC3\xB6rld <s>  123\n\xE4\xBD\xA0\xF0\x9F\xA6\x99 \xFF don't";
    TokenizerBlob blob;
    Error error;
    Tokenizer *t;
    tokenizer_is_tekken((const char *)data, size);
    if (tokenizer_import_tekken((const char *)data, size, &blob, &error) != STATUS_OK) return 0;
    if (tokenizer_open(&t, blob.bytes, blob.size, &error) != STATUS_OK) abort();
    TokenList ids = {0};
    char *decoded;
    size_t length;
    if (tokenizer_encode(t, text, sizeof text - 1, NULL, 7, &ids, &error) == STATUS_OK &&
        tokenizer_decode(t, ids.ids, ids.length, 0, &decoded, &length, &error) == STATUS_OK)
        free(decoded);
    token_list_free(&ids);
    tokenizer_close(t);
    tokenizer_blob_free(&blob);
    return 0;
}
