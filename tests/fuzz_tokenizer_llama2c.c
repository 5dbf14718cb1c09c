/* Fuzz target: imports the input as llama2.c's tokenizer.bin; an accepted tokenizer must encode and
 * decode. */
#include "formats/tokenizers/tokenizer_plain.h"
#include "fuzz_tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    TokenizerBlob blob;
    Error error;
    if (tokenizer_import_llama2c(data, size, 260 + (size > 0 ? data[0] : 0), &blob, &error) !=
        STATUS_OK)
        return 0;
    fuzz_tokenizer(&blob);
    return 0;
}
