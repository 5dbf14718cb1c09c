/* The file of results of a batch, and sets of keys. */
#ifndef BATCH_FILES_H
#define BATCH_FILES_H

#include <sys/types.h>

#include "modes/batch/result.h"
#include "system/errand.h"

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
/* Adds the flags to the key's flags; false: no memory. */
bool keyset_add(KeySet *set, RecordKey key, uint64_t flags);
void keyset_free(KeySet *set);

/* ---- Results -----------------------------------------------------------------------------------
 */

typedef struct ResultFile {
    int fd;
    const char *path; /* NULL: stdout; borrowed */
    bool regular;     /* a regular file */
    bool closed;  /* the reader has closed the pipe: writing has no effect and is not an error */
    bool retries; /* failed lines of an earlier run are answered again */
    int retry_fd; /* FILE.retry, which replaces the file if lines are to be removed; or -1 */
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
