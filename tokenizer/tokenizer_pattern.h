/* Patterns, and the steps that they may take. */
#ifndef TOKENIZER_TOKENIZER_PATTERN_H
#define TOKENIZER_TOKENIZER_PATTERN_H

#include "tokenizer/tokenizer_parts.h"

/* Compiles pattern[length] of the section, which may be anything, for pcre2_code_free. */
Status pattern_compile(const char *pattern, size_t length, pcre2_code **out, Error *error);

/* Names a pattern in the list of those whose steps need no counting. */
uint64_t pattern_hash(const char *pattern, size_t length);

/* The steps that all patterns together may take for a text of that length: 2^25, and 256 for each
 * byte. A step is one item of a pattern that is tried, or one byte by which the matcher moves
 * between two items, so their number does not depend on the machine. */
size_t pattern_steps(size_t length);

/* Gives that many steps to the patterns that are matched with this scratch area from now on. */
void pattern_allow(Scratch *s, size_t steps);

/* Iterates over the matches of a pattern, or of a string where `code` is NULL. As with Oniguruma's
 * find_iter an empty match right after a match does not count, and after an empty match the search
 * goes on one character later. Set the first four fields and zero the others. `string` is the
 * pattern's text where `code` is not NULL. */
typedef struct Matches {
    TextSpan span;
    const pcre2_code *code;
    const char *string;
    size_t string_length;
    size_t at, last_end;
    bool any;
} Matches;

/* 1 with the bounds of the next match, 0 when there is none, -1 on error, also where the pattern
 * needs more steps than are left. */
int matches_next(Matches *m, Scratch *scratch, size_t *from, size_t *to, Error *error);

#endif
