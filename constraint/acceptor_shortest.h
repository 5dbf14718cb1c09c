/* Short ways to the end of a text. */
#ifndef CONSTRAINT_ACCEPTOR_SHORTEST_H
#define CONSTRAINT_ACCEPTOR_SHORTEST_H

#include "base/text.h"
#include "constraint/acceptor.h"

/* Appends the shortest way to the end of the text to `out`, whose limit holds. Where members of an
 * object depend on each other, or few of many must be chosen, it may be a little longer than the
 * shortest. The same state always gives the same bytes. False: past a limit, of the
 * acceptor (acceptor_failed) or of the text (out->failed). */
bool acceptor_shortest(Acceptor *acceptor, AcceptorState state, TextBuffer *out);

#endif
