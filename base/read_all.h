/* Reading a file, a pipe or a terminal to its end. */
#ifndef READ_ALL_H
#define READ_ALL_H

#include <signal.h>

#include "base/status.h"

/* Reads all that `fd` still gives into *text (malloc'ed, with a NUL behind its *length bytes).
 * Fails with an Error that names `name` at more than `most` bytes. A pipe may never end:
 * STATUS_INTERRUPTED as soon as *interrupted (which may be NULL) is set. *text is NULL unless
 * STATUS_OK. */
Status read_all(int fd, const char *name, size_t most, const volatile sig_atomic_t *interrupted,
                char **text, size_t *length, Error *error);

#endif
