/* From a Builder to the bytes of the tokenizer's section. */
#ifndef FORMATS_TOKENIZERS_TOKENIZER_WRITE_H
#define FORMATS_TOKENIZERS_TOKENIZER_WRITE_H

#include "formats/tokenizers/tokenizer_build.h"

/* Checks what was collected, writes the section, and opens it once as the runner would. Reports
 * b->failed. Free *out with tokenizer_blob_free. */
Status tokenizer_write(Builder *b, TokenizerBlob *out, Error *error);

#endif
