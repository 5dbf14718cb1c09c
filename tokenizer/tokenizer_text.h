/* A text to ids: added tokens, and the splits between them. */
#ifndef TOKENIZER_TOKENIZER_TEXT_H
#define TOKENIZER_TOKENIZER_TEXT_H

#include "tokenizer/tokenizer_parts.h"

/* Appends the ids of text[length]; from_template as in tokenizer_encode. */
Status tokenizer_encode_text(Encoding *e, const char *text, size_t length,
                             const uint8_t *from_template);

#endif
