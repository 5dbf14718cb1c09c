/* The tokens that a shape forces: names of members, punctuation, the rest of a word once its
 * beginning leaves one choice. A Drafter proposes them (draft/forced.h). */
#ifndef CONSTRAINT_FORCED_TOKENS_H
#define CONSTRAINT_FORCED_TOKENS_H

#include "constraint/matcher.h"

/* Lets the matcher's rule propose forced tokens, cut as the tokenizer (borrowed; NULL: the longest
 * tokens are taken) cuts them. */
void forced_tokens_propose(Matcher *matcher, Tokenizer *tokenizer);

/* Writes the tokens that very likely come next to ids[most] and returns how many there are. They
 * spell bytes that the shape forces and end where a token of the vocabulary could reach past those
 * bytes. A model may still cut them otherwise. */
size_t forced_tokens_next(Matcher *matcher, int32_t *ids, size_t most);

#endif
