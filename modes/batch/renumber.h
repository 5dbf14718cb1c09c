/* Results of lines that were numbered within a part of the input, as the whole input numbers
 * them. */
#ifndef RENUMBER_H
#define RENUMBER_H

#include "base/status.h"

/* Returns the result line[length], which has a "line", with another number there, and with the ids
 * that are hashes of this number: byte for byte the line that the same request gives at that place.
 * No other byte changes. Freed by the caller; NULL: no memory, or not a result as it was written.
 */
char *renumber_result(const char *line, size_t length, size_t number);

#endif
