/* Fuzz target: imports the input as a .tiktoken file; an accepted tokenizer must encode and
 * decode. */
#include "formats/tokenizers/tokenizer_plain.h"
#include "fuzz_tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    TokenizerBlob blob;
    Error error;
    if (tokenizer_import_tiktoken((const char *)data, size, "llama3", NULL, 0, -1, -1, &blob,
                                  &error) != STATUS_OK)
        return 0;
    fuzz_tokenizer(&blob);
    return 0;
}
