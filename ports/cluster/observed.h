/* What rank 0's observers of attention (PassObserver) do not see: the scores and weights of the
 * heads that other ranks have. They keep them while a layer is computed, and hand them over when
 * they gather the heads' outputs. */
#ifndef CLUSTER_OBSERVED_H
#define CLUSTER_OBSERVED_H

#include "ports/cluster/wire.h"
#include "core/forward_steps.h"

typedef struct Observed Observed;

Status observed_new(Observed **out, Wire *wire, Error *error);
void observed_free(Observed *observed);

/* What rank 0's model shows to its observers, a sum; 0: nothing. */
enum { OBSERVED_WEIGHTS = 1, OBSERVED_SCORES = 2, OBSERVED_ALL = 3 };
unsigned observed_kinds(const Model *model);

/* In a rank that follows, before a pass: keeps what rank 0 observes. */
void observed_begin(Observed *observed, Model *model, unsigned kinds);

/* The heads of a layer, of which this rank computes those from `first` on. */
typedef struct ObservedHeads {
    size_t first;
    const int *sent_from, *sent; /* [ranks] the elements of outputs that each rank sends */
    size_t value_dim;            /* of them for each head */
} ObservedHeads;

/* After a layer's attention, on all ranks, one thread each: rank 0's observers receive the rows of
 * the other ranks' heads. */
void observed_hand_over(Observed *observed, const ForwardPass *pass, const ObservedHeads *heads);

#endif
