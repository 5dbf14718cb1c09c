/* --score: how likely the model finds each token of a text.
 *
 * By the chain rule p(text) = p(token 1) * p(token 2 | token 1) * ... Each token of the text is one
 * factor; it is shown with its rank among all tokens and with the likeliest ones. The sum of the
 * logarithms compares several endings of one question (zero-shot multiple choice). */
#ifndef TOKEN_SCORES_H
#define TOKEN_SCORES_H

#include "session/session.h"

/* Scores the session's prompt and prints a table or, with --score json, one JSON object. */
Status token_scores_run(Session *session, Error *error);

#endif
