/* SentencePiece's models (tokenizer_import.h). */
#ifndef TOKENIZER_SPM_H
#define TOKENIZER_SPM_H

#include "formats/tokenizers/tokenizer_import.h"

/* Imports a SentencePiece .model file (BPE or Unigram). */
Status tokenizer_import_sentencepiece(const void *bytes, size_t size, TokenizerBlob *out,
                                      Error *error);

#endif
