/* --no-cache: measures what the KV cache saves, by generating a text with it and without it.
 *
 * Without the cache every step runs the whole text again: step n multiplies n rows with each matrix
 * instead of one, and attention computes n (n + 1) / 2 scores a head instead of n. The logits have
 * the same bits, and the program checks it. */
#ifndef RECOMPUTE_H
#define RECOMPUTE_H

#include "session/session.h"

/* Continues the prompt greedily, by at most -n tokens. The text goes to the session's output, a
 * table of times and multiply-adds to stderr. */
Status recompute_run(Session *session, Error *error);

#endif
