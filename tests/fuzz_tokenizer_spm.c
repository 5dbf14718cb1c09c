/* Fuzz target: imports the input as a SentencePiece .model; an accepted tokenizer must encode and
 * decode. */
#include "formats/tokenizers/tokenizer_spm.h"
#include "fuzz_tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    TokenizerBlob blob;
    Error error;
    if (tokenizer_import_sentencepiece(data, size, &blob, &error) != STATUS_OK) return 0;
    fuzz_tokenizer(&blob);
    return 0;
}
