/* How the ranks of a cluster divide vectors among each other, and gather them.
 *
 * A vector of `width` elements is cut into units of neighbouring elements, and the units are dealt
 * out in order, to each rank as many as to the next. Where they do not come out even, or are fewer
 * than the ranks, the last ranks begin earlier and compute some of their neighbours' elements once
 * more, which takes no longer than the others take and gives the same bits: every rank has work of
 * one size. Of each element only one rank sends its value. */
#ifndef CLUSTER_SHARE_H
#define CLUSTER_SHARE_H

#include "ports/cluster/observed.h"

/* The shares of one model, which own their memory. */
typedef struct Shares Shares;

Status shares_new(Shares **out, Wire *wire, Error *error);
void shares_free(Shares *shares);

/* The part of a vector that this rank computes. */
typedef struct RankShare {
    Share share; /* first: what Linear points to */
    Shares *shares;
    size_t unit, n_units; /* of the whole vector */
    size_t first_unit, own_units;
    size_t first;         /* the first element */
    size_t own;           /* elements; fewer where the last unit is cut off */
    size_t skip;          /* elements of its own before those that it sends */
    size_t head;          /* elements of a head's output, if they are that; 0: they are not */
    size_t group;         /* elements travel as the codes of such groups (codes.h); 0: as floats */
    int *counts, *firsts; /* [ranks] which elements each rank sends */
    int *packed, *starts; /* [ranks] floats that they take on their way, and where they begin */
    size_t packed_width;  /* of all ranks */
    int *now_counts, *now_firsts; /* [ranks] the same for several rows at once */
} RankShare;

/* The share of vectors of `width` elements in units of `unit`. group: the group of the product that
 * alone reads the vectors, which divides `unit`; 0: they travel as floats. head: the vectors are
 * the outputs of a layer's heads of this size, which ranks have just computed; 0: they are
 * something else. NULL: no memory. */
const RankShare *shares_find(Shares *shares, size_t width, size_t unit, size_t group, size_t head);

/* Keeps what rank 0 observes of attention, in a rank that follows. */
Observed *shares_observed(Shares *shares);

/* Makes room to gather rows of all shares; called after the last shares_find. */
Status shares_reserve(Shares *shares, Error *error);

#endif
