/* The vocabulary of an own_transformer (own_model.h) without a tokenizer's file: characters, words,
 * or the ids themselves. */
#ifndef FORMATS_TOKENIZERS_OWN_VOCABULARY_H
#define FORMATS_TOKENIZERS_OWN_VOCABULARY_H

#include <jansson.h>

#include "formats/containers/input.h"
#include "formats/tokenizers/tokenizer_import.h"

/* Makes the tokenizer that "vocabulary" of config.json asks for:
 *   "characters", "words": of vocabulary.txt, one a line in the order of their ids, or else of
 *                 input.txt: all that occur in it, sorted by their code points (as nanoGPT's
 *                 prepare.py and sorted(set(text.split())) have them)
 *   [...]         the tokens in the order of their ids; characters if none is longer than one
 *   "ids", absent numbers from 0 to vocab_size - 1, apart by white space
 * Free with tokenizer_blob_free. The files may be NULL. */
Status own_vocabulary_import(const json_t *config, const InputFile *list, const InputFile *text,
                             size_t vocab_size, TokenizerBlob *out, Error *error);

#endif
