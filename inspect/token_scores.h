/* How likely the model finds each token of a text: the chain rule, made visible.
 *
 * p(text) = p(token 1) * p(token 2 | token 1) * ...: each line is one factor, its rank among all
 * tokens, and what the model would have found likelier. Sums over the endings of a question are
 * zero-shot multiple choice. */
#ifndef TOKEN_SCORES_H
#define TOKEN_SCORES_H

#include "session.h"

/* --score: the session's prompt, as a table, or with --score json one object. */
Status token_scores_run(Session *session, Error *error);

#endif
