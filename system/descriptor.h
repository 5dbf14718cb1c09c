/* Reading a descriptor to its end, writing all of a text to one, closing many. */
#ifndef DESCRIPTOR_H
#define DESCRIPTOR_H

#include <signal.h>

#include "base/status.h"

/* Reads all that `fd` still gives into *text (malloc'ed, with a NUL after its *length bytes).
 * Fails with an Error that names `name` at more than `most` bytes. A pipe may never end:
 * STATUS_INTERRUPTED as soon as *interrupted (which may be NULL) is set. *text is NULL unless
 * STATUS_OK. */
Status descriptor_read(int fd, const char *name, size_t most,
                       const volatile sig_atomic_t *interrupted, char **text, size_t *length,
                       Error *error);

/* As descriptor_read, for JSON, which has no NUL byte: /dev/zero fails at once. */
Status descriptor_read_json(int fd, const char *name, size_t most,
                            const volatile sig_atomic_t *interrupted, char **text, size_t *length,
                            Error *error);

/* Writes bytes[n], waiting where `fd` does not block. Returns n, or after an error how many bytes
 * were written, and errno. */
size_t descriptor_write(int fd, const char *bytes, size_t n);

/* Closes all descriptors from `first` on, except kept[n] (in any order; negative ones count for
 * nothing). */
void descriptors_close_except(int first, const int *kept, size_t n);

#endif
