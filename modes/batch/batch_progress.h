/* How far a batch is: the counts that it keeps, its line of progress and its --stats. */
#ifndef BATCH_PROGRESS_H
#define BATCH_PROGRESS_H

#include "modes/batch/engine.h"
#include "session/session.h"

typedef struct BatchProgress {
    const Session *session;
    const Engine *engine;
    size_t total;                     /* lines of the input; 0: not known */
    size_t n_lines, n_done, n_failed; /* lines: read, answered, failed */
    size_t n_before;                  /* lines that an earlier run answered */
    size_t n_generated;               /* tokens */
    double start, shown;              /* by clock_seconds: of the run, of the line of progress */
    bool on_results;                  /* results go to the terminal, too: no line of progress */
} BatchProgress;

/* Draws the line of progress over itself, ten times a second at most; `last` wipes it. Nothing
 * where the session shows no progress, or where the results would stand after the line. */
void batch_progress_show(BatchProgress *progress, bool last);

/* Prints --stats on stderr. `kv_bytes` is what the KV cache may use. */
void batch_progress_stats(const BatchProgress *progress, size_t kv_bytes, const char *fingerprint);

#endif
