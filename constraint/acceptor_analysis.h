/* What a grammar's nodes can match, found before it runs. */
#ifndef CONSTRAINT_ACCEPTOR_ANALYSIS_H
#define CONSTRAINT_ACCEPTOR_ANALYSIS_H

#include "constraint/acceptor_nodes_internal.h"

/* Finds out which nodes some text can match, and which the empty text. */
Status acceptor_analyse(Acceptor *acceptor, Error *error);
bool acceptor_productive(const Acceptor *acceptor, AcceptorNode node);

/* Whether an array that has `count` items, `hits` of them hits, can still get the items and the
 * hits that it needs. For arrays that count hits. */
bool acceptor_array_can_end(const Acceptor *acceptor, const Array *array, uint32_t count,
                            uint32_t hits);

/* Whether some node begins with itself and something that follows it. May fail for lack of memory.
 */
bool acceptor_left_recursive(Acceptor *acceptor);

#endif
