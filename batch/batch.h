/* The mode that answers many requests: `run MODEL --batch requests.jsonl -o results.jsonl`.
 *
 * Lines are read as the engine has room for them and answered as their texts end. The files are
 * opened before the program gives up its rights, everything else happens after. */
#ifndef BATCH_H
#define BATCH_H

#include "session.h"

typedef struct Batch Batch;

/* Opens and locks the files that the options name. STATUS_USAGE when the options make no sense
 * together. */
Status batch_open(Batch **out, const Options *options, Error *error);
void batch_close(Batch *batch); /* NULL is fine */

/* The directory in which the batch will replace a file, or NULL. */
const char *batch_writable(const Batch *batch);

/* Answers every line. STATUS_LINES_FAILED when some could not be answered: their results say
 * why. On STATUS_INTERRUPTED all finished results are in the file, and a message on stderr has
 * told how to go on. */
Status batch_run(Batch *batch, Session *session, Error *error);

#endif
