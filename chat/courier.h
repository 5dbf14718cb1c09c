/* A helper process that touches files for a program in the sandbox.
 *
 * It is started before the sandbox closes and does three errands, each only when the user asks for
 * it: write a text to a file, read a file, run the user's editor on a text. A file that exists is
 * replaced (atomically) only when this process wrote it.
 * It ends when the program does. */
#ifndef COURIER_H
#define COURIER_H

#include <sys/types.h>

#include "base/status.h"

typedef struct Courier {
    pid_t process;
    int to, from; /* pipes */
} Courier;

Status courier_start(Courier *courier, Error *error);
void courier_end(Courier *courier);

Status courier_write(Courier *courier, const char *path, const char *text, size_t length,
                     Error *error);
/* Reads a regular file of less than 256 MiB. *text is NUL-terminated and freed by the caller. */
Status courier_read(Courier *courier, const char *path, char **text, size_t *length, Error *error);
/* Runs $VISUAL, else $EDITOR, else vi, on a temporary file that holds `text`; *edited is what the
 * file holds afterwards, NUL-terminated, freed by the caller. */
Status courier_edit(Courier *courier, const char *text, char **edited, size_t *length,
                    Error *error);

#endif
