/* Prompt lookup decoding: guesses at the next tokens, taken from what followed the same tokens
 * earlier in the text, and checked by the model.
 *
 * The row that decoding has to compute next reads all weights; rows for a few guesses that ride
 * along cost little more. The guesses up to the first wrong one are tokens that need no pass of
 * their own. A row has the same bits in whatever call it is computed, and each token is chosen
 * from its own row as ever, so that the text is the same: sooner where it repeats itself, quotes
 * its prompt or edits it, else no sooner. Wrong guesses make the next ones fewer and rarer. */
#ifndef LOOKUP_H
#define LOOKUP_H

#include "model.h"

enum { LOOKUP_MAX = 31 }; /* guesses at a time */

typedef struct Lookup Lookup;

typedef struct LookupStats {
    size_t passes;  /* calls of model_forward */
    size_t guessed; /* rows computed for guesses */
    size_t right;   /* of these, used */
} LookupStats;

/* How many guesses at a time pay: none for a model that fits in a processor's caches, where rows
 * cost what they compute, nor for a mixture of experts, where each row reads experts of its own. */
size_t lookup_default(const ModelFile *file);

/* For the text that begins with ids[n], which are sequence 0 of a cache; at most `most` guesses at
 * a time (0: none). Fails when there is no memory. `model` is borrowed. */
Status lookup_new(Lookup **out, Model *model, size_t most, const int32_t *ids, size_t n,
                  Error *error);
void lookup_free(Lookup *lookup);

/* The text goes on with `token`: *logits, [vocab_size], the lookup's own and to be overwritten at
 * will, are those of the token after it. Fails as model_forward does for that one row. */
Status lookup_next(Lookup *lookup, KvCache *cache, int32_t token, float **logits, Error *error);

/* The cache forgets what was only guessed and holds the text again, nothing else. */
void lookup_end(const Lookup *lookup, KvCache *cache);

LookupStats lookup_stats(const Lookup *lookup);

#endif
