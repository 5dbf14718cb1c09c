/* Searches through the states that follow an expression, breadth first. */
#ifndef CONSTRAINT_REGEX_SEARCH_H
#define CONSTRAINT_REGEX_SEARCH_H

#include "constraint/regex.h"

enum { REGEX_MOST_STATES = 1 << 15 }; /* at which a search gives up */

/* The states that were found, in their order. Zero-initialize. */
typedef struct RegexSearch {
    uint32_t *states;
    size_t n, capacity;
    IndexTable table;
} RegexSearch;

/* Adds a state, unless it is known. False: no memory. */
bool regex_search_add(RegexArena *arena, RegexSearch *search, uint32_t state);
/* The same, with the state's index in states[]. */
bool regex_search_index(RegexArena *arena, RegexSearch *search, uint32_t state, uint32_t *index);
void regex_search_free(RegexSearch *search);

#endif
