/* Short ways to the end of a text. */
#ifndef CONSTRAINT_ACCEPTOR_SHORTEST_H
#define CONSTRAINT_ACCEPTOR_SHORTEST_H

#include "constraint/acceptor.h"

/* Appends the shortest way to the end of the text, or about that, to out[*n]; false when none was
 * found within the limits. */
bool acceptor_shortest(Acceptor *acceptor, AcceptorState state, char *out, size_t most, size_t *n);

#endif
