/* --eval: how well a model predicts a text and, with --against, how far its distributions are from
 * another model's.
 *
 * The text is cut into windows as long as the context. A window begins half a context after the one
 * before, and every token is scored once, in the first window that holds it: after the first
 * window, each token has at least half a context before it. A model that wants a beginning-of-text
 * token gets it at the start of every window.
 *
 * The first half of a window is computed a second time: in the window before, the same tokens stood
 * after other tokens, which attention saw and states took in, so that above the first layer their
 * keys, values and states are others; with RoPE or learned positions they are in the first layer as
 * well. A cache that went on would score with another context than that of other programs' figures.
 * Nothing is computed twice where the text fits the context. Models that keep states alone have a
 * context of a million tokens, which takes no memory, so that their state goes on to the text's
 * end.
 * --stats prints how many rows were computed. */
#ifndef SCORE_H
#define SCORE_H

#include "session/session.h"

/* Scores the session's prompt (the text of --eval) and prints its perplexity, exp(mean of -log
 * p(token)), and its bits a byte, which can be compared across tokenizers. With session->other it
 * also prints the mean and the 99th percentile of the Kullback-Leibler divergence from the other
 * model's distributions, and how often both models have the same likeliest token. */
Status score_run(Session *session, Error *error);

/* The type of the cache of session->other. It is the yardstick: --kv-type q8 does not make its
 * cache coarser. */
KvType score_other_kv_type(const Session *session);

#endif
