/* How many characters of a JSON string may follow unconditionally: what lets a mask be made from
 * prepared sets of tokens. */
#ifndef CONSTRAINT_REGEX_SAFE_RUN_H
#define CONSTRAINT_REGEX_SAFE_RUN_H

#include "constraint/regex.h"

/* How many characters that stand for themselves in a JSON string (not below U+0020, not " or \,
 * well-formed) may follow in any choice: 0 to REGEX_RUN_MOST, or REGEX_RUN_ALL without limit. */
enum { REGEX_RUN_MOST = 24, REGEX_RUN_ALL = 100 };
int regex_safe_run(RegexArena *arena, Regex regex);

#endif
