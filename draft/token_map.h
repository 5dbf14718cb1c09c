/* Which tokens of two vocabularies spell the same bytes, so that a model can propose tokens for
 * another one.
 *
 * Vocabularies that are the same, or begin alike, map by number. Otherwise tokens with the same
 * text map to each other, then those that decode to the same bytes; a token of the first vocabulary
 * that the second does not have is spelled there by several. */
#ifndef TOKEN_MAP_H
#define TOKEN_MAP_H

#include "tokenizer.h"

typedef struct TokenMap TokenMap;

/* Maps the first n tokens of `from`, the text's vocabulary, and the first n_other of `other`; both
 * are borrowed. Fails when fewer than half of the tokens in use of either map to each other. */
Status token_map_new(TokenMap **out, const Tokenizer *from, size_t n, Tokenizer *other,
                     size_t n_other, Error *error);
void token_map_free(TokenMap *map);

/* Appends what spells `token` in the other vocabulary; nothing for a token without bytes. Not from
 * several threads at once. */
Status token_map_spell(TokenMap *map, int32_t token, TokenList *out, Error *error);

/* The token of the first vocabulary that is the other's `token`; -1: there is none. */
int32_t token_map_back(const TokenMap *map, int32_t token);

/* How many tokens of the first vocabulary have their equal in the other. */
size_t token_map_n_equal(const TokenMap *map);

#endif
