/* The shortest texts of expressions. */
#ifndef CONSTRAINT_REGEX_SHORTEST_H
#define CONSTRAINT_REGEX_SHORTEST_H

#include "constraint/regex.h"

/* The length of the shortest text that matches a live expression; UINT32_MAX when it is not found
 * within the limits. */
uint32_t regex_shortest(RegexArena *arena, Regex regex);

#endif
