#include "formats/tokenizers/tokenizer_import.h"

#include <stdlib.h>

void tokenizer_blob_free(TokenizerBlob *blob) {
    free(blob->bytes);
    *blob = (TokenizerBlob){0};
}
