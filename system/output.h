/* The output for generated text: stdout, a pipe or device, or a file that appears only when it is
 * complete. */
#ifndef OUTPUT_H
#define OUTPUT_H

#include "system/errand.h"
#include "system/word_wrap.h"

typedef struct Output {
    int fd;
    bool terminal; /* control characters are shown, not sent (terminal.h) */
    bool wraps;    /* set by the caller: a terminal's lines end between words (word_wrap.h) */
    bool closed;   /* the reader has closed the pipe: writing has no effect and is not an error */
    const char *path; /* NULL: stdout; borrowed */
    Errand errand;    /* renames the new file */
    char *temporary; /* the file being written, which output_finish renames to `path`; NULL: none */
    WordWrap wrap;
    TextBuffer wrapped; /* scratch */
} Output;

/* Opens `path`, or stdout when it is NULL. A regular file is written under a temporary name (see
 * replace_file.h), with the permissions of the user's own file that it replaces, else those
 * that the umask gives. A device, a pipe or an open file (/dev/fd/3) is written directly. */
Status output_open(Output *output, const char *path, Error *error);

/* Writes all bytes, waiting where it must. The program must ignore SIGPIPE. */
Status output_write(Output *output, const char *bytes, size_t length, Error *error);

/* Writes the word that waits for its end, where lines are wrapped. */
Status output_flush(Output *output, Error *error);

/* Syncs a complete file to the disk and gives it its name. */
Status output_finish(Output *output, Error *error);

/* Closes the output; a file that was not finished is removed. */
void output_close(Output *output);

#endif
