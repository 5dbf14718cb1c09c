/* The three standard streams, before a program opens its first file and when it ends.
 *
 * A parent may have closed one of them (`run M >&-`). The next file that is opened would take its
 * number, and what is meant for a terminal would be written into a model. */
#ifndef STANDARD_STREAMS_H
#define STANDARD_STREAMS_H

#include "base/status.h"

/* Gives each closed standard descriptor to /dev/null, the wrong way round: reading the one or
 * writing the others fails as before. Fails where the limit of open files leaves none for the
 * work itself. */
Status standard_streams_fill(Error *error);

/* What went to stdout by stdio has arrived, or its reader had enough. */
Status standard_streams_finish(Error *error);

#endif
