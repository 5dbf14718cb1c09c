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
 *     acceptor_init(&m, &limits)
 *     ... acceptor_term, acceptor_sequence ...
 *     acceptor_finish(&m, root, &error)
 *     for (state = acceptor_start(&m); state != ACCEPTOR_DEAD && n > 0; n--)
 *         state = acceptor_step(&m, state, *bytes++);
 *     acceptor_accepts(&m, state)
 */
#ifndef CONSTRAINT_ACCEPTOR_H
#define CONSTRAINT_ACCEPTOR_H

#include "base/status.h"
#include "constraint/regex.h"

typedef uint32_t AcceptorNode;
typedef uint32_t AcceptorState;

enum { ACCEPTOR_DEAD = 0 };
#define ACCEPTOR_NO_NODE UINT32_MAX
#define ACCEPTOR_NO_LIMIT UINT32_MAX

/* A member that an object may have. */
typedef struct ObjectMember {
    Regex key; /* with its quotes */
    AcceptorNode value;
    bool required;
    bool many; /* stands for any number of members; never required */
} ObjectMember;

/* Where the object has member `if_member`, it must have member `then_member`. */
typedef struct ObjectDependency {
    uint32_t if_member, then_member;
} ObjectDependency;

typedef struct Acceptor Acceptor;

/* What an acceptor may take: past a limit it fails. */
typedef struct AcceptorLimits {
    size_t nodes;                 /* of the shape */
    size_t regex_nodes;           /* of the expressions and their derivatives */
    size_t build_work, step_work; /* steps to build it, and for one mask */
    size_t bytes;                 /* that states take before they are forgotten */
} AcceptorLimits;
AcceptorLimits acceptor_limits_default(void);

Acceptor *acceptor_new(const AcceptorLimits *limits); /* NULL: no memory */
void acceptor_free(Acceptor *acceptor);
RegexArena *acceptor_regexes(Acceptor *acceptor);

/* Nodes. Functions that make nodes return ACCEPTOR_NO_NODE once the acceptor has failed;
 * acceptor_finish says why. */
AcceptorNode acceptor_term(Acceptor *acceptor, Regex regex);
AcceptorNode acceptor_sequence(Acceptor *acceptor, const AcceptorNode *items, size_t n);
AcceptorNode acceptor_choice(Acceptor *acceptor, const AcceptorNode *items, size_t n);
AcceptorNode acceptor_repeat(Acceptor *acceptor, AcceptorNode item, uint32_t min, uint32_t max);
/* A JSON object with from min to max members. */
AcceptorNode acceptor_object(Acceptor *acceptor, const ObjectMember *members, size_t n,
                             const ObjectDependency *dependencies, size_t n_dependencies,
                             uint32_t min, uint32_t max);
/* A JSON array of from min to max items: the first n as given, others like `rest`
 * (ACCEPTOR_NO_NODE: there are no others). */
AcceptorNode acceptor_array(Acceptor *acceptor, const AcceptorNode *first, size_t n,
                            AcceptorNode rest, uint32_t min, uint32_t max);
/* A node that acceptor_define makes equal to another one, later: recursion. */
AcceptorNode acceptor_forward(Acceptor *acceptor);
void acceptor_define(Acceptor *acceptor, AcceptorNode forward, AcceptorNode target);

/* Finds out which nodes some text can match. Call it before the two that follow. */
Status acceptor_analyse(Acceptor *acceptor, Error *error);
bool acceptor_productive(const Acceptor *acceptor, AcceptorNode node);

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
const char *acceptor_failed(const Acceptor *acceptor);
/* After a failure, forgets all states, so that other texts can go on: the epoch is another one. */
void acceptor_recover(Acceptor *acceptor);
/* Starts counting the steps of the next mask. */
void acceptor_begin_work(Acceptor *acceptor);

/* Appends the shortest way to the end of the text, or about that, to out[*n]; false when none was
 * found within the limits. */
bool acceptor_shortest(Acceptor *acceptor, AcceptorState state, char *out, size_t most, size_t *n);

/* When the states take too much memory, all are forgotten: numbers given before are void, and the
 * epoch is another one. Call it where no number is kept but beside its epoch. */
void acceptor_trim(Acceptor *acceptor);
uint64_t acceptor_epoch(const Acceptor *acceptor);

/* White space after { [ and a comma, and before } and ]: nothing, a space, or a line end and up to
 * 40 spaces and tabs. After a colon stands a space or nothing; elsewhere nothing. */
Regex acceptor_json_space(Acceptor *acceptor);

#endif
