/* Opens the weights of the session's model file, with the changes that the options ask for:
 * overridden fields and masks, threads, and which weights stay in memory. */
#ifndef WEIGHTS_OPENING_H
#define WEIGHTS_OPENING_H

#include "modes/open/branches_off.h"
#include "modes/open/masks.h"
#include "session/kept_weights.h"
#include "session/session.h"

typedef struct WeightsOpening {
    AdaptiveThreads threads;
    KeptWeights *kept;         /* which of them stay in memory; NULL: all fit */
    Masks *masks;              /* of --override; NULL: the model's own */
    BranchesOff *branches_off; /* of --override; NULL: none */
} WeightsOpening;

/* The processes that compute together. */
typedef struct Ranks {
    Exchange *exchange; /* what model_open needs to divide a model; NULL: one process */
    bool leads;         /* this process writes for the user */
} Ranks;

/* Opens the model of session->file: session->model, which stays NULL where --info shows a
 * vocabulary without weights. `traits` are the mode's. */
Status weights_opening_start(WeightsOpening *weights, Session *session, unsigned traits,
                             const Ranks *ranks, Error *error);

/* Called when the adapters are there, which take memory, too. */
void weights_opening_keep(WeightsOpening *weights, Session *session);

/* After the session's model is closed. */
void weights_opening_close(WeightsOpening *weights);

#endif
