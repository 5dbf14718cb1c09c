/* --against beside -i or -f: two models continue one text. */
#ifndef SIDE_BY_SIDE_H
#define SIDE_BY_SIDE_H

#include "session/session.h"

/* Prints what the session's model and session->other make of the prompt with the same options and
 * the same random numbers, then the first token in which they differ, with the log-probabilities
 * that both models give to both tokens there. Both need the same number of tokens; the session's
 * tokenizer reads for both. `file` is the other model's. */
Status side_by_side_run(Session *session, ModelFile *file, Error *error);

#endif
