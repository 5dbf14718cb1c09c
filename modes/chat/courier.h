/* A helper process that touches files for a program in the sandbox.
 *
 * It is started before the sandbox closes, writes the session's file, and does four things more,
 * each only when the user asks for it: write a text to a file, read a file, list the names that
 * begin like one, run the user's editor on a text. A file that exists is replaced (atomically) only
 * when this process wrote it. It ends when the program does. */
#ifndef COURIER_H
#define COURIER_H

#include <sys/types.h>

#include "modes/chat/session_file.h"

typedef struct Courier {
    pid_t process;
    int to, from; /* pipes */
} Courier;

/* `session` (NULL: none) is the only file that the session's errands below touch. */
Status courier_start(Courier *courier, const SessionFile *session, Error *error);
/* Waits until the process has let the session's file go. */
void courier_end(Courier *courier);

/* session_file_append, session_file_replace and session_file_set_aside, there. `path` is for
 * errors alone. */
Status courier_append(Courier *courier, const char *path, const char *text, size_t length,
                      Error *error);
Status courier_replace(Courier *courier, const char *path, const char *text, size_t length,
                       Error *error);
Status courier_set_aside(Courier *courier, const char *path, char aside[PATH_MAX], Error *error);

Status courier_write(Courier *courier, const char *path, const char *text, size_t length,
                     Error *error);
/* Reads a regular file of less than 256 MiB. *text is NUL-terminated and freed by the caller. */
Status courier_read(Courier *courier, const char *path, char **text, size_t *length, Error *error);
/* What names beginning with `path` have in common and, each after a newline, the names themselves,
 * without their directory, sorted, a '/' after those of directories; hidden files only where the
 * name begins with a dot. Empty: there are none, or more than 1000. Freed by the caller. */
Status courier_complete(Courier *courier, const char *path, char **names, size_t *length,
                        Error *error);
/* Runs $VISUAL, else $EDITOR, else vi, on a temporary file that holds `text`; *edited is what the
 * file holds afterwards, NUL-terminated, freed by the caller: "" where the editor did not write it.
 */
Status courier_edit(Courier *courier, const char *text, char **edited, size_t *length,
                    Error *error);

#endif
