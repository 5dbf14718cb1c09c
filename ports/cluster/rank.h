/* One of the processes that compute a model together: its part of the model, and its place in their
 * passes. */
#ifndef CLUSTER_RANK_H
#define CLUSTER_RANK_H

#include "ports/cluster/divide.h"
#include "ports/cluster/leader_steps.h"

typedef struct Rank Rank;

/* Borrows the wire. Rank 0 leads: the passes of its model and what is done to their caches are told
 * to the others, which steps_follower_run repeats. */
Status rank_new(Rank **out, Wire *wire, Error *error);
void rank_free(Rank *rank); /* after model_close */

/* Before model_open, for a model that runs with adapters (adapters/lora.h): what ranks exchange
 * then are float32, because adapters take the inputs of products as they are. */
void rank_send_floats(Rank *rank);

/* What model_open needs. One model of a rank can be divided. */
Exchange *rank_exchange(Rank *rank);
Leader *rank_leader(Rank *rank); /* NULL: it follows */
const Divided *rank_divided(const Rank *rank);
const size_t *rank_begun(const Rank *rank); /* how many passes of its model have begun */
Observed *rank_observed(Rank *rank);        /* of a rank that has divided its model */

#endif
