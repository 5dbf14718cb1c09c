/* The shortest texts of expressions.
 *
 * Where an intersection has very many states, a text may be longer than the shortest. The same
 * expression always has the same one. */
#ifndef CONSTRAINT_REGEX_SHORTEST_H
#define CONSTRAINT_REGEX_SHORTEST_H

#include "base/text.h"
#include "constraint/regex.h"

#define REGEX_TOO_LONG UINT32_MAX

/* The length of the shortest text that matches a live expression; REGEX_TOO_LONG when it is not
 * found within the limits. */
uint32_t regex_shortest(RegexArena *arena, Regex regex);

/* A tag with which an expression can match, and the length of the shortest text that does. */
typedef struct RegexEnd {
    uint32_t tag, length;
} RegexEnd;

/* Zero-initialize; free(ends.items). A tag may be listed more than once. */
typedef struct RegexEnds {
    RegexEnd *items;
    size_t n, capacity;
} RegexEnds;

/* Appends the tags of the expression, REGEX_PLAIN for a match without one. False: no memory. */
bool regex_ends(RegexArena *arena, Regex regex, RegexEnds *ends);

/* Appends bytes[n] to `out`. Fails the arena where memory is short; a text that is longer than its
 * limit fails alone. */
void regex_put_text(RegexArena *arena, TextBuffer *out, const char *bytes, size_t n);

/* Appends the shortest text that matches with `tag`. False when none was found. */
bool regex_shortest_text(RegexArena *arena, Regex regex, uint32_t tag, TextBuffer *out);

/* Compares texts by length, then by bytes. */
int regex_compare_texts(const TextBuffer *x, const TextBuffer *y);

#endif
