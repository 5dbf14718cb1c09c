/* A process of its own that touches files for a program that has given up that right.
 *
 * It is started before the sandbox closes and knows three errands, each on the word of the
 * user: write a text to a file (replaced atomically), read a file, let the user's editor write a
 * text. It ends when the program does. */
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
/* *text is NUL-terminated and freed by the caller. */
Status courier_read(Courier *courier, const char *path, char **text, size_t *length, Error *error);
/* $VISUAL, $EDITOR or vi on a temporary file that begins with `text`. */
Status courier_edit(Courier *courier, const char *text, char **edited, size_t *length,
                    Error *error);

#endif
