/* The tokenizer of a model with generated weights: the 256 bytes, one token that begins and one
 * that ends a text, and invented words for all other ids, so that its texts can be read aloud. */
#ifndef FAMILIES_READING_RANDOM_TOKENIZER_H
#define FAMILIES_READING_RANDOM_TOKENIZER_H

#include "formats/containers/source.h"

/* Sets source->tokenizer and the ids in its Config. Does nothing when the vocabulary is smaller
 * than 258. */
Status random_tokenizer(Source *source, Error *error);

#endif
