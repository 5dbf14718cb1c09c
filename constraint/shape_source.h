/* Shapes as people write them: JSON Schema, regular expressions, grammars, choices.
 * docs/shapes.md describes each. */
#ifndef CONSTRAINT_SHAPE_SOURCE_H
#define CONSTRAINT_SHAPE_SOURCE_H

#include "base/status.h"
#include "constraint/acceptor.h"

typedef enum ShapeKind {
    SHAPE_NONE,
    SHAPE_JSON_OBJECT, /* any JSON object */
    SHAPE_JSON_SCHEMA,
    SHAPE_REGEX, /* all of the text */
    SHAPE_GRAMMAR,
    SHAPE_CHOICE,   /* a JSON array of texts, one of which the answer is */
    SHAPE_STRUCTURE /* what the program writes around these: structure.h */
} ShapeKind;

typedef struct ShapeSource {
    ShapeKind kind;
    const char *text; /* [length]; not used by SHAPE_JSON_OBJECT */
    size_t length;
    unsigned form; /* flags of JsonForm, for all JSON in it */
} ShapeSource;

/* Makes the node of a shape that is not a structure. */
Status shape_source_node(const ShapeSource *source, Acceptor *acceptor, AcceptorNode *node,
                         Error *error);

/* Compiles such a shape. The untrusted text takes bounded time and memory; the error says what
 * cannot be enforced, and where. acceptor_free frees the acceptor. */
Status shape_source_compile(const ShapeSource *source, Acceptor **acceptor, Error *error);
/* The same with limits of the caller's. */
Status shape_source_compile_within(const ShapeSource *source, const AcceptorLimits *limits,
                                   Acceptor **acceptor, Error *error);

#endif
