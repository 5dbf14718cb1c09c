/* --trace N: how each token of a text is chosen. For every step of the sampler (sampler.h) that is
 * on, the N likeliest tokens with their probabilities, then the random number and the choice. The
 * numbers are the sampler's own (SamplerRecord), and the text is the one that is written without.
 */
#ifndef SAMPLING_TRACE_H
#define SAMPLING_TRACE_H

#include "session/session.h"

/* Continues the session's prompt, and writes its choices to the session's output: a table for each
 * token, then the text; with --json or -o OUT.json as one JSON object. */
Status sampling_trace_run(Session *session, Error *error);

#endif
