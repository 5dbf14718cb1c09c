/* How well a model predicts a text, and how far its choices are from another model's.
 *
 * The text is cut into windows of the context's length; each begins half a context after the
 * one before it, and every token is scored once, in the first window that holds it, so that
 * all but the first window's have half a context before them at least. Where the model wants a
 * token at the beginning of a text, every window begins with it. */
#ifndef SCORE_H
#define SCORE_H

#include "session.h"

/* Prints the perplexity of the session's prompt, exp of the mean of -log p(token), and
 * the same in bits a byte, which compares across tokenizers. With session->other also the mean
 * and the 99th percentile of the Kullback-Leibler divergence of the model's distributions from
 * the other one's, and how often both have the same likeliest token. */
Status score_run(Session *session, Error *error);

#endif
