/* The two files of a batch: lines in, result lines out. */
#ifndef BATCH_FILES_H
#define BATCH_FILES_H

#include <signal.h>
#include <sys/types.h>

#include "batch/result.h"

/* ---- Lines in ------------------------------------------------------------------------------- */

enum { LINE_MOST_BYTES = 64 << 20 };

/* Reads a file or a pipe as it fills, one line at a time. Treat the fields as private. */
typedef struct LineReader {
    int fd;
    const char *name;
    char *bytes; /* [begin, end) are read and not yet given */
    size_t begin, end, capacity, scanned;
    bool at_end, skipping, terminated;
    size_t number;   /* of the line given last, from 1 */
    uint64_t offset; /* where the next line begins */
} LineReader;

typedef enum LineState {
    LINE_READ,
    LINE_TOO_LONG, /* more than LINE_MOST_BYTES: only the beginning is given */
    LINE_NOT_YET,  /* nothing to read now */
    LINE_NONE      /* the end */
} LineState;

void line_reader_init(LineReader *reader, int fd, const char *name);
void line_reader_free(LineReader *reader);

/* The next line without its newline, valid until the next call. Waits for it only when `wait`;
 * STATUS_INTERRUPTED when a signal sets *interrupted (which may be NULL) meanwhile. */
Status line_reader_next(LineReader *reader, bool wait, const volatile sig_atomic_t *interrupted,
                        LineState *state, const char **line, size_t *length, Error *error);

/* Lines of a regular file that are not blank; 0 for anything else. Leaves the offset alone. */
size_t line_reader_count(int fd);

bool line_is_blank(const char *line, size_t length);

/* ---- Sets of keys ------------------------------------------------------------------------------
 */

enum { KEY_SEEN = 1, KEY_DONE = 2, KEY_FAILED = 4 };

typedef struct KeySet {
    struct KeyEntry {
        RequestKey key;
        uint64_t flags; /* 0: free */
    } * entries;
    size_t n, capacity;
} KeySet;

unsigned keyset_flags(const KeySet *set, RequestKey key); /* 0: not there */
bool keyset_add(KeySet *set, RequestKey key, unsigned flags);
void keyset_free(KeySet *set);

/* ---- Results out -------------------------------------------------------------------------------
 */

typedef struct ResultFile {
    int fd;
    const char *path; /* NULL: stdout; borrowed */
    bool regular, closed, retries;
    char directory[4096]; /* of the path */
    Text buffer;
    off_t whole;   /* bytes of whole lines in the file */
    double synced; /* when; clock_seconds */
    bool dirty;    /* written since */

    /* What an earlier run has left, by result_file_resume. */
    KeySet keys;       /* KEY_DONE, KEY_FAILED; the run adds KEY_SEEN */
    RequestKey *order; /* [n_kept] in the order of the lines */
    size_t n_kept, n_failed, order_capacity;
} ResultFile;

/* Opens `path` (NULL: stdout) and locks it, before the program gives up its rights. Refuses what
 * another process is writing to, and what is not empty unless `resume`. */
Status result_file_open(ResultFile *file, const char *path, bool resume, bool retry, Error *error);
void result_file_close(ResultFile *file);

/* Reads what an earlier run has left: cuts a torn last line off, refuses results of another
 * fingerprint, takes failed lines out when the file was opened to retry them. With `ordered`,
 * the file is cut before the first of these instead, for order's sake. */
Status result_file_resume(ResultFile *file, const char *fingerprint, bool ordered, Error *error);

/* Adds a whole line (a newline follows it). */
Status result_file_add(ResultFile *file, const char *line, Error *error);

/* Hands the lines to the system; to the disk as well when `sync`, or a second after the last
 * time. */
Status result_file_flush(ResultFile *file, bool sync, Error *error);

#endif
