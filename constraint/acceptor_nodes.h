/* The grammar of a shape: a graph of nodes, as the front ends make it and an acceptor
 * (acceptor.h) runs it.
 *
 * The lexemes of the grammar are regular expressions (regex.h). What stands above them are
 * sequences, choices and repetitions, and objects and arrays of JSON.
 *
 * JSON of a grammar is one line: after a comma and a colon stands a space or nothing, elsewhere
 * nothing. Members of an object come in the order in which they are listed, those that stand for
 * many after the others. JsonForm has the freedoms from both rules:
 *
 * JSON_ANY_SPACE: after { [ and a comma, and before } and ], allows nothing, a space, or a line end
 * with its indentation, which is at most 4 spaces or a tab for each level of nesting, up to level
 * INDENTED_LEVELS. Without a bound that follows the nesting, a small model fills line after line
 * with blanks.
 *
 * JSON_ANY_ORDER: members come in any order. */
#ifndef CONSTRAINT_ACCEPTOR_NODES_H
#define CONSTRAINT_ACCEPTOR_NODES_H

#include "base/status.h"
#include "constraint/regex.h"

typedef uint32_t AcceptorNode;

#define ACCEPTOR_NO_NODE UINT32_MAX
#define ACCEPTOR_NO_LIMIT UINT32_MAX

/* Flags: what JSON may look like. 0: one line, members in the order of their list. */
typedef enum JsonForm { JSON_ANY_ORDER = 1, JSON_ANY_SPACE = 2 } JsonForm;

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

/* `form`: flags of JsonForm. NULL: no memory. */
Acceptor *acceptor_new(const AcceptorLimits *limits, unsigned form);
void acceptor_free(Acceptor *acceptor);
RegexArena *acceptor_regexes(Acceptor *acceptor);
bool acceptor_in_order(const Acceptor *acceptor); /* without JSON_ANY_ORDER */

/* Nodes. Functions that make nodes return ACCEPTOR_NO_NODE once the acceptor has failed;
 * acceptor_finish says why. */
AcceptorNode acceptor_term(Acceptor *acceptor, Regex regex);
AcceptorNode acceptor_sequence(Acceptor *acceptor, const AcceptorNode *items, size_t n);
AcceptorNode acceptor_choice(Acceptor *acceptor, const AcceptorNode *items, size_t n);
AcceptorNode acceptor_repeat(Acceptor *acceptor, AcceptorNode item, uint32_t min, uint32_t max);
/* A JSON object with from min to max members; those that stand for many come last in the list. */
AcceptorNode acceptor_object(Acceptor *acceptor, const ObjectMember *members, size_t n,
                             const ObjectDependency *dependencies, size_t n_dependencies,
                             uint32_t min, uint32_t max);
/* JSON Schema's `contains`: from min to max items of an array are like first[i], or from the n-th
 * on like `rest`. */
typedef struct ArrayHits {
    const AcceptorNode *first; /* [n] as of the items */
    AcceptorNode rest;
    uint32_t min, max;
} ArrayHits;
/* A JSON array of from min to max items: the first n as given, others like `rest`
 * (ACCEPTOR_NO_NODE: there are no others). hits NULL: none are counted. */
AcceptorNode acceptor_array(Acceptor *acceptor, const AcceptorNode *first, size_t n,
                            AcceptorNode rest, uint32_t min, uint32_t max, const ArrayHits *hits);
/* A node that acceptor_define makes equal to another one, later: recursion. */
AcceptorNode acceptor_forward(Acceptor *acceptor);
void acceptor_define(Acceptor *acceptor, AcceptorNode forward, AcceptorNode target);

#endif
