/* Which members an object may get next, and which it must still get.
 *
 * A set of members is an index in the acceptor's sets; UINT32_MAX: the empty set. Where members
 * come in order, those after the last one of the set may follow. Without dependencies such a set
 * holds its last member alone: what the object has before that changes nothing. The bit after
 * those of the named members says that a member which stands for many has come, after which no
 * named one may. */
#ifndef CONSTRAINT_ACCEPTOR_MEMBERS_H
#define CONSTRAINT_ACCEPTOR_MEMBERS_H

#include "constraint/acceptor_nodes_internal.h"

/* The set `old` with `member`. */
uint32_t acceptor_members_with(Acceptor *acceptor, const Object *object, uint32_t old,
                               uint32_t member);

/* Whether an object with `set` has the named member or, in order and without dependencies, has
 * passed it by. */
bool acceptor_members_has(const Acceptor *acceptor, const Object *object, uint32_t set,
                          size_t member);

/* Whether an object with `set` must still get the member. */
bool acceptor_members_needed(const Acceptor *acceptor, const Object *object, uint32_t set,
                             size_t member);

/* Whether an object with `set` that then gets `extra` (UINT32_MAX: nothing) may still get the named
 * member, and with it all that this one calls for. */
bool acceptor_members_fit(Acceptor *acceptor, const Object *object, uint32_t set, uint32_t extra,
                          uint32_t member);

/* Whether `max` has room for `member` (UINT32_MAX: none), and for all that it, the required members
 * and those that the object has call for, in an object with dependencies that has `count` members,
 * of which `set` are named ones. What is called for is the same however the object ends, so one
 * that has room can end. True for other objects. */
bool acceptor_members_room(Acceptor *acceptor, const Object *object, uint32_t set, uint32_t count,
                           uint32_t member);

/* Marks in may[object->n] the members that may come next after `count` members, of which `set` are
 * named ones, so that the object can still end. Returns whether it may end now. */
bool acceptor_members_may(Acceptor *acceptor, const Object *object, uint32_t set, uint32_t count,
                          bool *may);

#endif
