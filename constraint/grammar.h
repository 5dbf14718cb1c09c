/* GBNF, llama.cpp's notation for grammars, as a shape: docs/shapes.md describes it. */
#ifndef CONSTRAINT_GRAMMAR_H
#define CONSTRAINT_GRAMMAR_H

#include "base/status.h"
#include "constraint/acceptor.h"

/* Makes the node of the texts that the grammar's rule `root` derives. */
Status grammar_compile(Acceptor *acceptor, const char *text, size_t length, AcceptorNode *node,
                       Error *error);

#endif
