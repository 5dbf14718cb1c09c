/* --why: which tensors of a model A, put into another model B in memory, give back the answers that
 * B has changed.
 *
 * A trial asks B, some of whose tensors are A's (modelfile_replace). First each tensor that differs
 * is tried alone; then ddmin.h looks for a set without a superfluous tensor that gives back every
 * answer that is looked for. Where four answers or more have changed, every second one is held out
 * of both. The held-out answers, and those that have not changed, are only asked for in the end:
 * the trials before ask for the others alone, and ddmin's end soon after the first answer that is
 * not given back.
 *
 * A trial begins at the first layer in which it differs from a run whose residual stream is kept
 * (residuals.h): that of B, or that of the smallest set which has won all back so far. */
#ifndef WHY_H
#define WHY_H

#include "session/session.h"

/* Which items a model is scored on. */
typedef struct WhyAsked {
    const bool *wanted;     /* [n], the items; NULL: all */
    const size_t *expected; /* [n]: the run may end at the first other answer; or NULL */
    /* Where `logprobs` is not NULL: logprobs[i] becomes the log-probabilities of own[i] and
     * other[i], two answers to each item that is asked for. */
    const size_t *own, *other; /* [n] */
    double (*logprobs)[2];
    PassObserver *observer; /* for residuals_observe; or NULL */
} WhyAsked;

/* What the models are asked. An answer is a number: a token's id, or the index of a choice. */
typedef struct WhyItems {
    size_t n;
    /* Fills in answers[n] of the model in `file`, or those alone that are asked for. The passes of
     * two runs for the same items are the same, up to the first that is ended early. */
    Status (*answer)(void *context, const ModelFile *file, const WhyAsked *asked, size_t *answers,
                     Error *error);
    /* Writes where item i is into place[size], and answer `answer` of it into text[size]. */
    void (*name)(void *context, size_t i, size_t answer, char *place, char *text, size_t size);
    void *context;
} WhyItems;

/* Prints the report: changed answers, single tensors, the set as --keep options, held-out answers.
 * A is session->file; `other` is B, which is put back as it was. Whoever answers gives every trial
 * the cache that B has, whatever types A's tensors have. */
Status why_run(const Session *session, ModelFile *other, const WhyItems *items, Error *error);

#endif
