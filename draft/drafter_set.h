/* Several drafters for one text: a Drafter that asks its members, decides who goes first, how many
 * tokens pay, and when to be silent.
 *
 * A draft of m tokens, each right with probability p after right ones, gives 1 + p + ... + p^m
 * tokens and costs a pass of 1 + m rows and the time of the drafter. The set proposes as many as
 * give the most tokens a second, by the times that were measured and the share of right drafts so
 * far (economics.h). The member with the best prospect goes first; where its draft ends early and
 * is likely right, the next member goes on after it.
 *
 * Each kind of drafter has an account of the tokens that it gained and lost over all texts. A draft
 * is never longer than the account can pay if all of it is wrong, its rows, the drafter's steps and
 * what the drafter reads of the text before them. All kinds together get half a token's time at
 * first and half a percent of each token's, those first that lack little for a draft. An account
 * never holds more than most_balance. So kinds of drafters that are always wrong cost no more than
 * that, are asked again now and then, and are believed again when they are right.
 *
 * A drafter that reads (Drafter.unread) begins with as many of a text's last tokens as it can pay,
 * at least eight. It reads twice as many whenever that takes at most half of what it gained in this
 * text. One that could not pay even if it were nearly always right does not begin.
 *
 * A trusted drafter (Drafter.trust) proposes its first tokens of a text whatever is in its account,
 * and begins whatever they seem to cost, unless its drafts are often wrong. */
#ifndef DRAFTER_SET_H
#define DRAFTER_SET_H

#include "draft/economics.h"
#include "generation.h"

enum { DRAFTER_SET_MOST = 4 }; /* members */

/* A Drafter without members; drafter_free frees it and them. `costs` is borrowed. NULL: no memory.
 */
Drafter *drafter_set_new(PassCosts *costs);

/* Cuts drafts where the text's rule (borrowed; NULL: none) would not allow them: they could only be
 * wrong. The rule must have taken exactly the text when the set is asked. */
void drafter_set_hold(Drafter *set, TokenRule *rule);

/* Adds a member, which the set owns from now on. `record` is borrowed. Among equals the member that
 * was added first goes first. At most DRAFTER_SET_MOST. */
void drafter_set_add(Drafter *set, Drafter *member, DraftRecord *record);

#endif
