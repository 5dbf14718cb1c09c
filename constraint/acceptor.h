/* The acceptor that reads an answer byte by byte and knows whether it can still get its shape.
 *
 * A shape is a graph of nodes. The lexemes in it are regular expressions (regex.h); what stands
 * above them is a pushdown automaton, run for all its choices at once. A head is one choice: the
 * expression that the next bytes must match, and the stack of what follows. Stacks are linked lists
 * of hash-consed frames, so that heads share them. A state is a set of heads, hash-consed as well:
 * it is a number, which can be kept, copied and gone back to for nothing, and what follows it by
 * each byte is remembered.
 *
 * Objects and arrays of JSON are nodes of their own. An object's frame holds the set of members
 * that it has; its members come in any order.
 *
 *     m = acceptor_new(&limits)
 *     ... acceptor_term, acceptor_sequence ...
 *     acceptor_finish(m, root, &error)
 *     for (state = acceptor_start(m); state != ACCEPTOR_DEAD && n > 0; n--)
 *         state = acceptor_step(m, state, *bytes++);
 *     acceptor_accepts(m, state)
 */
#ifndef CONSTRAINT_ACCEPTOR_H
#define CONSTRAINT_ACCEPTOR_H

#include "constraint/acceptor_nodes.h"

typedef uint32_t AcceptorState;

enum { ACCEPTOR_DEAD = 0 };

/* Makes `root` the whole shape. Fails when no text has it, when it is left-recursive, or when the
 * limits were passed. */
Status acceptor_finish(Acceptor *acceptor, AcceptorNode root, Error *error);

/* Running it. A failure (limits) gives ACCEPTOR_DEAD; acceptor_failed says why. */
AcceptorState acceptor_start(Acceptor *acceptor);
AcceptorState acceptor_step(Acceptor *acceptor, AcceptorState state, unsigned char byte);
bool acceptor_accepts(const Acceptor *acceptor, AcceptorState state);
/* True when nothing can follow: the text is complete. */
bool acceptor_complete(const Acceptor *acceptor, AcceptorState state);
/* regex_safe_run of the state: how many safe characters may follow in any choice. */
int acceptor_safe_run(Acceptor *acceptor, AcceptorState state);
/* The bytes that may follow. */
ByteSet acceptor_bytes(Acceptor *acceptor, AcceptorState state);
/* The only byte that may follow; -1: none may, or several. */
int acceptor_only_byte(Acceptor *acceptor, AcceptorState state);
const char *acceptor_failed(const Acceptor *acceptor);
/* After a failure, forgets all states, so that other texts can go on: the epoch is another one. */
void acceptor_recover(Acceptor *acceptor);
/* Starts counting the steps of the next mask. */
void acceptor_begin_work(Acceptor *acceptor);

/* When the states take too much memory, all are forgotten: numbers given before are void, and the
 * epoch is another one. Call it where no number is kept but beside its epoch. */
void acceptor_trim(Acceptor *acceptor);
/* Bytes that are allocated, roughly. */
size_t acceptor_memory(const Acceptor *acceptor);
uint64_t acceptor_epoch(const Acceptor *acceptor);

#endif
