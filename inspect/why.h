/* --why: which tensors of a model A, put into another model B in memory, give back the answers that
 * B has changed.
 *
 * Every trial runs all items with B, some of whose tensors are A's (modelfile_replace). First each
 * tensor that differs is tried alone; then ddmin.h looks for a set without a superfluous tensor
 * that gives back every answer that is looked for. Where four answers or more have changed, every
 * second one is held out of both and only looked at in the end, as are the answers that have not
 * changed. */
#ifndef WHY_H
#define WHY_H

#include "session/session.h"

/* What the models are asked. An answer is a number: a token's id, or the index of a choice. */
typedef struct WhyItems {
    size_t n;
    /* Fills in answers[n] of the model in `file`. */
    Status (*answer)(void *context, const ModelFile *file, size_t *answers, Error *error);
    /* Fills in logprobs[i] of each item where own[i] != other[i]: the log-probabilities of the
     * answers own[i] and other[i] by the model in `file`. */
    Status (*weigh)(void *context, const ModelFile *file, const size_t *own, const size_t *other,
                    double (*logprobs)[2], Error *error);
    /* Writes where item i is into place[size], and answer `answer` of it into text[size]. */
    void (*name)(void *context, size_t i, size_t answer, char *place, char *text, size_t size);
    void *context;
} WhyItems;

/* Prints the report: changed answers, single tensors, the set as --keep options, held-out answers.
 * A is session->file; `other` is B, which is put back as it was. */
Status why_run(const Session *session, ModelFile *other, const WhyItems *items, Error *error);

#endif
