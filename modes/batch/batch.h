/* The mode that answers many requests: `run MODEL --batch requests.jsonl -o results.jsonl`.
 *
 * A line is read when the engine has room for it, and its result is written when its texts end. The
 * files are opened before the program gives up its rights; everything else happens afterwards. */
#ifndef BATCH_H
#define BATCH_H

#include "session/session.h"

typedef struct Batch Batch;

/* Opens and locks the files that the options name. STATUS_USAGE when the options make no sense
 * together. */
Status batch_open(Batch **out, const Options *options, Error *error);
void batch_close(Batch *batch); /* NULL is fine */

/* Answers every line. STATUS_LINES_FAILED when some lines failed: their results say why. After
 * STATUS_INTERRUPTED all finished results are in the file, and a message on stderr has said how to
 * resume. */
Status batch_run(Batch *batch, Session *session, Error *error);

/* For --replay: the requests are those of the receipt, or of --batch where that is given; each
 * answer goes to session->receipt and nowhere else. The results of --check are drafts. */
Status batch_replay_open(Batch **out, const Options *options, Error *error);
Status batch_replay_run(Batch *batch, Session *session, Error *error);

#endif
