/* The positions of a row with the largest scores: a running choice of the best `k` from scores that
 * arrive in the order of their positions. Of equal scores the one at the lowest position is taken;
 * +0 and -0 are equal, and NaN comes after all numbers. So the choice depends on the scores alone,
 * not on the pieces in which they arrive. */
#ifndef LAYERS_ATTENTION_SELECTION_H
#define LAYERS_ATTENTION_SELECTION_H

#include <stddef.h>
#include <stdint.h>

typedef struct Selection {
    uint32_t *ranks, *positions; /* [capacity], the candidates in the order of their positions */
    size_t k, n, capacity;
    uint32_t floor; /* candidates of later positions need a higher rank */
} Selection;

/* Numbers of 4 bytes that a Selection of the best k needs. */
size_t selection_words(size_t k);
/* Makes an empty selection in memory[selection_words(k)]. */
Selection selection_begin(uint32_t *memory, size_t k);

/* Adds the scores of the positions first, first + 1, ..., which come after all that were added. */
void selection_add(Selection *selection, const float *scores, size_t first, size_t n);
/* Adds what another selection with the same k holds of later positions. */
void selection_join(Selection *selection, const Selection *later);
/* Leaves the best k, or all where there are fewer: positions[n] in rising order. */
void selection_finish(Selection *selection);

#endif
