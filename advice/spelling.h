/* Finds the name that a misspelt word was meant to be. */
#ifndef ADVICE_SPELLING_H
#define ADVICE_SPELLING_H

#include <stddef.h>

/* Damerau-Levenshtein distance: letters to insert, drop, change or swap with a neighbour. SIZE_MAX
 * for words of more than 32 bytes. */
size_t spelling_distance(const char *a, const char *b);

/* The largest distance at which a word still passes for a misspelling: a third of its letters, at
 * most 3. */
size_t spelling_tolerance(const char *word);

/* The name in names[n] nearest to `word`, the first of several; NULL when none is near. Names may
 * be NULL. */
const char *spelling_nearest(const char *word, const char *const *names, size_t n);

#endif
