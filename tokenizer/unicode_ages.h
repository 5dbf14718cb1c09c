/* Code points that are newer than the Unicode versions of two libraries behind the tokenizers
 * library (https://github.com/huggingface/tokenizers): unicode_categories (8.0), which its Bert
 * normalizer and its Punctuation ask, and unicode_normalization_alignments (9.0), which computes
 * its normalization forms. They leave characters alone that they do not know, and so must
 * normalization here. */
#ifndef TOKENIZER_UNICODE_AGES_H
#define TOKENIZER_UNICODE_AGES_H

#include <stdbool.h>
#include <stdint.h>

/* True for a code point that was assigned after Unicode 8.0 (9.0) and by 14.0, if a normalization
 * form, the stripping of accents or Bert's clean_text would change it or its neighbours. */
bool unicode_newer_than_8(uint32_t code);
bool unicode_newer_than_9(uint32_t code);

#endif
