/* What .tiktoken lists and Mistral's tekken.json share: a byte-level vocabulary in which each token
 * has a rank, and the two neighbours whose concatenation has the lowest rank merge first. */
#ifndef FORMATS_TOKENIZERS_TOKENIZER_RANKS_H
#define FORMATS_TOKENIZERS_TOKENIZER_RANKS_H

#include "formats/tokenizers/tokenizer_build.h"

/* Adds the split by a pattern for the regex crate. As in tiktoken, text that no match covers gets
 * no token (the patterns of the public lists match all of a text). */
Status ranks_split(Builder *b, const char *pattern, size_t n, Error *error);

/* Sets token `id` to the bytes that base64[n] stands for. `where` begins messages. */
Status ranks_token(Builder *b, int64_t id, int64_t rank, const char *base64, size_t n,
                   const char *where, Error *error);

/* Derives the merges when all tokens are set; fails where a byte has no token. */
Status ranks_finish(Builder *b, const char *where, Error *error);

/* Sets token `id` to a special token. */
Status ranks_special(Builder *b, int64_t id, const char *text, size_t n, Error *error);

/* Makes `id` begin every text; nothing where it is not a token's. */
void ranks_begin(Builder *b, int64_t id);

#endif
