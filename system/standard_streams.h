/* The three standard streams, before a program opens its first file and when it ends.
 *
 * A parent may have closed one of them (`run M >&-`). The next file to be opened would take its
 * number, and text for a terminal would be written into a model. */
#ifndef STANDARD_STREAMS_H
#define STANDARD_STREAMS_H

#include "base/status.h"

/* Opens /dev/null on each closed standard descriptor, stdin for writing and the others for reading,
 * so that using them still fails. Fails itself when the limit of open files leaves too few for the
 * program's work. */
Status standard_streams_fill(Error *error);

/* Closes all other descriptors that the parent left open, except those that a word of the command
 * line names, like /dev/fd/63. Called before a file is opened; `words` ends with NULL. */
void standard_streams_only(char **words);

/* Flushes stdio's stdout. Fails when it cannot be written; a pipe that its reader has closed is not
 * an error. */
Status standard_streams_finish(Error *error);

#endif
