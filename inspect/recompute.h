/* What the cache of keys and values saves: the same text with it and without it.
 *
 * Without a cache every step runs the whole text again, so step n costs n times the projections
 * and, over all, n^2 / 2 times the attention of one row. The bits are the same: that is checked. */
#ifndef RECOMPUTE_H
#define RECOMPUTE_H

#include "session.h"

/* --no-cache: continues the prompt greedily as -n says; the text goes to the output, the table of
 * times and multiply-adds to stderr. */
Status recompute_run(Session *session, Error *error);

#endif
