/* Shapes that the program itself writes around those that users give: reasoning before an answer,
 * calls of tools, control tokens.
 *
 * A structure is JSON text, so that equal ones are compiled once (shape_store.h). Each element is
 * an array that begins with its kind:
 *
 *     ["text", TEXT]              the text
 *     ["token", NAME]             a control token (vocabulary.h)
 *     ["free", STOP, ...]         any text that holds none of the stops
 *     ["unless", REGEX]           any text that does not begin with a match
 *     ["regex", REGEX]            a match
 *     ["schema", SCHEMA, LABEL]   JSON that is valid by the schema; errors name the label
 *     ["string", SCHEMA, STOP...] a string of the schema as plain text that holds no stop
 *     ["shape", KIND, TEXT]       a shape of shape_source.h; KIND is a number, ShapeKind
 *     ["sequence", ELEMENT, ...]
 *     ["choice", ELEMENT, ...]
 *     ["repeat", ELEMENT, MIN, MAX]   MAX -1: without limit
 *
 * Only the program writes structures: a user's shape never holds a control token. */
#ifndef CONSTRAINT_STRUCTURE_H
#define CONSTRAINT_STRUCTURE_H

#include "base/status.h"
#include "constraint/shape_source.h"

/* Compiles a structure as shape_source_compile_within does shapes. Errors name what of a user's
 * part cannot be enforced. */
Status structure_compile(const ShapeSource *source, const AcceptorLimits *limits,
                         Acceptor **acceptor, Error *error);

#endif
