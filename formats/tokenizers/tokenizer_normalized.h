/* Normalization alone, for importers: the runner only encodes whole texts. */
#ifndef TOKENIZER_NORMALIZED_H
#define TOKENIZER_NORMALIZED_H

#include "tokenizer.h"

/* Gives what the normalizers make of the UTF-8 prefix of text[length]; the caller frees *out. Takes
 * what their patterns need from `steps` (pattern_allow in tokenizer/tokenizer_pattern.h), which
 * texts share. */
Status tokenizer_normalize(Tokenizer *tokenizer, const char *text, size_t length, size_t *steps,
                           char **out, size_t *out_length, Error *error);

#endif
