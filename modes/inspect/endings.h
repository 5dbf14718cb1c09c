/* Scores the endings of a context, or whole documents, by their probability: what --eval-tasks
 * measures of one model.
 *
 * The endings of a context run together in one pass, each in a sequence that shares the context's
 * pages. The next context shares what it has in common with the one before it (few-shot examples),
 * so that questions with the same beginning compute it once. */
#ifndef ENDINGS_H
#define ENDINGS_H

#include "session/session.h"

enum { ENDINGS_MOST = 256 }; /* of one context */

typedef struct EndingScore {
    double logprob;  /* natural logarithm */
    size_t n_tokens; /* of the ending */
    bool greedy;     /* each token is the likeliest in its place */
} EndingScore;

typedef struct EndingText {
    const char *text;
    size_t length;
} EndingText;

typedef struct Endings Endings;

/* Prepares scoring with a model, its tokenizer and a type of cache. Options come from `session`. */
Status endings_new(Endings **out, const Session *session, Model *model, KvType kv_type,
                   Tokenizer *tokenizer, Error *error);
void endings_free(Endings *endings); /* NULL is fine */

/* Scores endings[n], 0 < n <= ENDINGS_MOST, after the context. Text is split as
 * lm-evaluation-harness does: spaces at the end of the context belong to the endings. Context and
 * ending are tokenized together; if the context alone has n tokens, the ending's tokens are the
 * ones after the first n. *cut: the context did not fit and lost its first tokens. */
Status endings_score(Endings *e, const EndingText *context, const EndingText *endings, size_t n,
                     EndingScore *scores, bool *cut, Error *error);

/* Scores all tokens of a text, in windows as long as the model's context, each `stride` tokens (0:
 * half a window) after the one before it. A token is scored once, in the first window that has it.
 */
Status endings_document(Endings *e, const EndingText *text, size_t stride, EndingScore *score,
                        Error *error);

/* Rows that were computed, and those that a full computation of each ending would have needed. */
void endings_rows(const Endings *e, uint64_t *computed, uint64_t *whole);

#endif
