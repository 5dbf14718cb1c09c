/* Tiers of the test suite. Every case runs in every tier unless tests/README.md says otherwise;
 * what differs is how much of its sweep (sizes, seeds, fixtures) it takes. The environment variable
 * VERBATIM_TIER names the tier:
 *
 *     check    for editing: one model for each mechanism, one size for each kernel
 *     test     what a newcomer runs
 *     all      every sweep at its full size; also without the variable
 *
 * Any other name fails the test. */
#ifndef TIER_H
#define TIER_H

#include <stdbool.h>
#include <stddef.h>

typedef enum Tier { TIER_CHECK, TIER_TEST, TIER_ALL } Tier;

Tier tier(void);

/* The number that belongs to the tier: how many seeds, sizes or rounds a sweep takes. */
size_t tier_count(size_t check, size_t test, size_t all);

/* Whether element i of a sweep takes part: every check-th in the tier check, every test-th in the
 * tier test, and all in the tier all. Element 0 always does. */
bool tier_takes(size_t i, size_t check, size_t test);

#endif
