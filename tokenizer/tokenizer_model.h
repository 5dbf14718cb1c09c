/* A word to ids: BPE and WordLevel. */
#ifndef TOKENIZER_TOKENIZER_MODEL_H
#define TOKENIZER_TOKENIZER_MODEL_H

#include "tokenizer/tokenizer_parts.h"

/* Appends the ids of one word (never empty; well-formed UTF-8 unless SECTION_BYTE_LEVEL). */
Status tokenizer_encode_word(Encoding *e, const char *word, size_t length);

#endif
