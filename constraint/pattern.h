/* Regular expressions as people write them: docs/shapes.md names the dialect. */
#ifndef CONSTRAINT_PATTERN_H
#define CONSTRAINT_PATTERN_H

#include "base/status.h"
#include "constraint/character_sets.h"

/* How much of the text a pattern stands for: all of it, or (JSON Schema's `pattern`) a part of it,
 * anywhere, unless ^ and $ say where. PATTERN_PART_LOOSE: so, and also what other dialects match,
 * whose . is a line end, too, and whose $ stands before a last line end. */
typedef enum PatternScope { PATTERN_WHOLE, PATTERN_PART, PATTERN_PART_LOOSE } PatternScope;

/* Compiles pattern[length], UTF-8. The error says what cannot be enforced, and where. */
Status pattern_compile_regex(RegexArena *arena, const char *pattern, size_t length,
                             PatternScope scope, Writing writing, Regex *out, Error *error);

#endif
