/* Lines of a file or a pipe: requests, rows of a table, texts. text_file.h has texts that are read
 * whole. */
#ifndef LINE_READER_H
#define LINE_READER_H

#include <signal.h>
#include <stdint.h>

#include "base/status.h"

enum { LINE_MOST_BYTES = 64 << 20 };

/* Reads a file or a pipe, also while it is being written, one line at a time. The fields are
 * private. */
typedef struct LineReader {
    int fd;
    const char *name;
    const char *option; /* that takes the file's name, for errors: "--batch" */
    char *bytes;        /* bytes[begin ... end - 1] are read and not yet returned */
    size_t begin, end, capacity;
    size_t scanned;  /* bytes before this index hold no newline */
    bool at_end;     /* of the input */
    bool skipping;   /* the rest of a line that is too long */
    bool terminated; /* the line returned last ended with a newline */
    size_t number;   /* of the line returned last, from 1 */
    uint64_t offset; /* where the next line begins */
    uint64_t first;  /* where line 1 begins */
    uint64_t limit;  /* no byte at or after this offset is read */
} LineReader;

typedef enum LineState {
    LINE_READ,
    LINE_TOO_LONG, /* more than LINE_MOST_BYTES: only its first bytes are returned */
    LINE_NOT_YET,  /* nothing to read now */
    LINE_NONE      /* the end */
} LineState;

void line_reader_init(LineReader *reader, int fd, const char *name, const char *option);

/* Makes a new reader of a file read the lines in its bytes from `begin` to `end`, numbered from 1.
 */
Status line_reader_range(LineReader *reader, uint64_t begin, uint64_t end, Error *error);
void line_reader_free(LineReader *reader);

/* Returns the next line without its newline, valid until the next call. Waits for it only when
 * `wait`; STATUS_INTERRUPTED when a signal sets *interrupted (which may be NULL) meanwhile. */
Status line_reader_next(LineReader *reader, bool wait, const volatile sig_atomic_t *interrupted,
                        LineState *state, const char **line, size_t *length, Error *error);

/* Counts the lines to come that are not blank in a regular file; 0 for any other file. */
size_t line_reader_count(const LineReader *reader);

/* Trims the line that the reader has just returned: removes a byte order mark at the beginning of
 * the file and, where the line is a text, a final carriage return. */
void line_reader_trim(const LineReader *reader, bool text, const char **line, size_t *length);

#endif
