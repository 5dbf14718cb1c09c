/* The two files of a batch: a reader of lines for its input, and the file of results. */
#ifndef BATCH_FILES_H
#define BATCH_FILES_H

#include <signal.h>
#include <sys/types.h>

#include "batch/result.h"
#include "system/errand.h"

/* ---- Input ---------------------------------------------------------------------------------- */

enum { LINE_MOST_BYTES = 64 << 20 };

/* Reads a file or a pipe, also while it is being written, one line at a time. The fields are
 * private. */
typedef struct LineReader {
    int fd;
    const char *name;
    char *bytes; /* bytes[begin ... end - 1] are read and not yet returned */
    size_t begin, end, capacity;
    size_t scanned;  /* bytes before this index hold no newline */
    bool at_end;     /* of the input */
    bool skipping;   /* the rest of a line that is too long */
    bool terminated; /* the line returned last ended with a newline */
    size_t number;   /* of the line returned last, from 1 */
    uint64_t offset; /* where the next line begins */
    uint64_t first;  /* where line 1 begins */
    uint64_t limit;  /* no byte at or behind this offset is read */
} LineReader;

typedef enum LineState {
    LINE_READ,
    LINE_TOO_LONG, /* more than LINE_MOST_BYTES: only its first bytes are returned */
    LINE_NOT_YET,  /* nothing to read now */
    LINE_NONE      /* the end */
} LineState;

void line_reader_init(LineReader *reader, int fd, const char *name);

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
void batch_line_trim(const LineReader *reader, bool text, const char **line, size_t *length);

/* ---- Sets of keys ------------------------------------------------------------------------------
 */

enum { KEY_SEEN = 1, KEY_DONE = 2, KEY_FAILED = 4 };

/* A hash table from keys to flags, or to any other number that is not 0. */
typedef struct KeySet {
    struct KeyEntry {
        RecordKey key;
        uint64_t flags; /* 0: free */
    } * entries;
    size_t n, capacity;
} KeySet;

uint64_t keyset_flags(const KeySet *set, RecordKey key); /* 0: not in the set */
/* Adds the flags to those of the key; false: no memory. */
bool keyset_add(KeySet *set, RecordKey key, uint64_t flags);
void keyset_free(KeySet *set);

/* ---- Results -----------------------------------------------------------------------------------
 */

typedef struct ResultFile {
    int fd;
    const char *path;  /* NULL: stdout; borrowed */
    bool regular;      /* a regular file */
    bool closed;       /* the reader has closed the pipe: writing has no effect and is no error */
    bool retries;      /* failed lines of an earlier run are answered again */
    int retry_fd;      /* FILE.retry, which replaces the file if lines are to be removed; or -1 */
    char *retry_path;  /* its name while it has one */
    Errand errand;     /* renames or removes the new file */
    TextBuffer buffer; /* lines that are not written yet */
    off_t whole;       /* bytes of whole lines in the file */
    /* The first line of a part's results (shard.h), borrowed, which the caller sets before
     * result_file_resume; NULL: none. */
    const char *header;
    double synced; /* the time of the last sync, by clock_seconds */
    bool dirty;    /* lines were written after it */

    /* The results of an earlier run, read by result_file_resume. */
    KeySet keys;      /* KEY_DONE, KEY_FAILED; batch.c adds KEY_SEEN for each id that it reads */
    RecordKey *order; /* [n_kept] in the order of the lines */
    size_t n_kept, n_failed, order_capacity;
} ResultFile;

/* Opens `path` (NULL: stdout) and locks it, before the program gives up its rights. Fails for a
 * file that another process is writing to and, unless `resume`, for one that is not empty. */
Status result_file_open(ResultFile *file, const char *path, bool resume, bool retry, Error *error);
void result_file_close(ResultFile *file);

/* Reads the results of an earlier run. Cuts off an incomplete last line, fails for results with
 * another fingerprint, and removes failed lines when the file was opened with `retry`. With
 * `ordered` it cuts the file before the first failed line instead, so that the new results are in
 * order. */
Status result_file_resume(ResultFile *file, const char *fingerprint, bool ordered, Error *error);

/* Adds the header to a file that has none yet. */
Status result_file_begin(ResultFile *file, Error *error);

/* Adds a whole line (a newline follows it). */
Status result_file_add(ResultFile *file, const char *line, Error *error);

/* Writes the added lines. Syncs them to the disk when `sync`, or when the last sync was a second
 * ago. */
Status result_file_flush(ResultFile *file, bool sync, Error *error);

#endif
