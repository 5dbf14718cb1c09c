/* Imports tekken.json of any bytes; what is accepted must encode and decode. */
#include "formats/tokenizers/tokenizer_tekken.h"
#include "fuzz_tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    TokenizerBlob blob;
    Error error;
    tokenizer_is_tekken((const char *)data, size);
    if (tokenizer_import_tekken((const char *)data, size, &blob, &error) != STATUS_OK) return 0;
    fuzz_tokenizer(&blob);
    return 0;
}
