/* Mistral's tokenizers (tokenizer_import.h). */
#ifndef TOKENIZER_TEKKEN_H
#define TOKENIZER_TEKKEN_H

#include "formats/tokenizers/tokenizer_import.h"

/* Imports Mistral's tekken.json. */
Status tokenizer_import_tekken(const char *bytes, size_t size, TokenizerBlob *out, Error *error);
/* Whether a JSON text is a tekken.json, and not a tokenizer.json. */
bool tokenizer_is_tekken(const char *bytes, size_t size);

#endif
