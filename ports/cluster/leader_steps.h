/* What rank 0 tells the ranks that follow it: before each of its passes one broadcast, with what
 * was done to its caches since the last one and the rows of the pass. They do the same to theirs.
 */
#ifndef CLUSTER_LEADER_STEPS_H
#define CLUSTER_LEADER_STEPS_H

#include "kvcache/kvcache_mirror.h"
#include "ports/cluster/observed.h"
#include "adapters/lora.h"
#include "model.h"

/* Rank 0's side of the steps. */
typedef struct Leader Leader;
Status leader_new(Leader **out, Wire *wire, Error *error);
void leader_free(Leader *leader);

KvMirror *leader_mirror(Leader *leader);

/* Before the first pass of a model that runs with adapters: the others are told which ones a
 * sequence has. */
void leader_set_lora(Leader *leader, const Lora *lora);

/* Sends the rows of a forward pass to the other ranks, before rank 0 runs it. fits: the cache has
 * room for the rows; without it the others fill their caches as far as rank 0 did, and run nothing.
 */
void leader_pass(Leader *leader, const ForwardPass *pass, bool fits);

/* How many passes were sent. */
size_t leader_passes(const Leader *leader);

/* Tells the others to go on: with what wire_open's caller waits for, or to their end. */
void leader_say(Leader *leader, bool goes_on);

/* The other ranks wait here for leader_say; *goes_on receives what it said. */
Status steps_follower_wait(Wire *wire, bool *goes_on, Error *error);

/* What a rank that follows computes with. */
typedef struct Following {
    Model *model;
    Lora *lora; /* the model's adapters, the same as rank 0's; NULL: none */
    Observed *observed;
    const size_t *begun; /* rank_begun */
} Following;

/* Runs rank 0's passes until it says that it ends. Fails when a message is not one that rank 0 can
 * have meant (message.h): the caller ends all ranks. */
Status steps_follower_run(Wire *wire, const Following *following, Error *error);

#endif
