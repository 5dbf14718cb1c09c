/* Replacement and normalization. */
#ifndef TOKENIZER_TOKENIZER_NORMALIZE_H
#define TOKENIZER_TOKENIZER_NORMALIZE_H

#include "tokenizer/tokenizer_pattern.h"

/* Appends m->span with every match replaced by to[to_length], and clears m->span.first where that
 * removes the character that the text begins with. */
Status tokenizer_replace_matches(Matches *m, Scratch *scratch, TextBuffer *out, const char *to,
                                 size_t to_length, Error *error);

/* Replaces *span by its normalized text, which lives until the next call. */
Status normalize(Encoding *e, TextSpan *span);

#endif
