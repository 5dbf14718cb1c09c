/* Remarks of a chat to its user. They go to stderr, dim where the terminal can show that, so that
 * stdout holds answers alone. */
#ifndef NOTE_H
#define NOTE_H

#include <stddef.h>

#include "base/status.h"

/* Writes a remark and a newline, without control characters (system/terminal.h). */
void note(const char *format, ...) PRINTF_LIKE(1, 2);

/* Writes a remark that quotes a message, or the first 200 bytes of a longer one, cut at a whole
 * character. */
void note_message(const char *before, const char *message, const char *after);

/* The ending of a word for n things. */
static inline const char *plural(size_t n) {
    return n == 1 ? "" : "s";
}

#endif
