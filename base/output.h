/* Where the generated text goes: a descriptor, or a file that appears whole or not at all. */
#ifndef OUTPUT_H
#define OUTPUT_H

#include "base/status.h"

typedef struct Output {
    int fd;
    bool terminal;    /* control characters are shown, not sent: terminal.h */
    bool closed;      /* the reader has gone: what is written vanishes, and no error */
    const char *path; /* NULL: stdout; borrowed */
    char *temporary;  /* beside `path`, until output_finish renames it; NULL: none */
} Output;

/* Whether `path` is a link, or a named pipe, that another user made (root may): in a directory that
 * all may write to, a trap. OUTPUT_PLANTED is what an Error says of it, given the path. */
bool output_is_planted(const char *path);
#define OUTPUT_PLANTED "%s: a link or a pipe of another user, which is not written to"

/* Stdout when `path` is NULL. A regular file is written beside its name, for the user alone unless
 * an old file of that name, the user's own, lets others in; a device or pipe is written as it
 * stands. */
Status output_open(Output *output, const char *path, Error *error);

/* Writes all of it at once; the caller has SIGPIPE ignored. */
Status output_write(Output *output, const char *bytes, size_t length, Error *error);

/* The text is whole: a file is synced and gets its name. */
Status output_finish(Output *output, Error *error);

/* Closes; a file that was not finished vanishes. */
void output_close(Output *output);

#endif
