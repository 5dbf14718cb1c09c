/* Multiple-choice knapsack: one option of each unit, so that their costs sum to the least at a
 * size.
 *
 * Options that lie on the lower convex hull of a unit's (bytes, cost) pairs are taken greedily, by
 * the cost that a byte saves. What room the last step leaves is then filled: single changes and
 * exchanges between two units that lower the cost and fit are made, the best first, until there is
 * none. Ties go to the lower index, so that the same numbers give the same choice. */
#ifndef KNAPSACK_H
#define KNAPSACK_H

#include <stdint.h>

#include "base/status.h"

typedef struct KnapsackOption {
    uint64_t bytes;
    double cost; /* finite, not negative */
} KnapsackOption;

typedef struct KnapsackUnit {
    const KnapsackOption *options; /* [n] */
    size_t n;                      /* not 0 */
} KnapsackUnit;

/* The bytes of the smallest option of each unit together. */
uint64_t knapsack_least(const KnapsackUnit *units, size_t n);

/* Fills in chosen[n], an option's number for each unit. False where not even the smallest options
 * fit into `limit` bytes, which then are what is chosen. */
bool knapsack_solve(const KnapsackUnit *units, size_t n, uint64_t limit, size_t *chosen);

#endif
