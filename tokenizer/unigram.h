/* Unigram, the model of SentencePiece's tokenizers, which the core leaves out. */
#ifndef TOKENIZER_UNIGRAM_H
#define TOKENIZER_UNIGRAM_H

#include "tokenizer/tokenizer_parts.h"

/* Appends the ids of one word. */
Status unigram_encode(Encoding *e, const char *bytes, size_t length);

#endif
