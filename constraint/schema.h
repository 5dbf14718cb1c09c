/* JSON Schema, drafts 4 to 2020-12, as a shape: docs/shapes.md says what is enforced.
 *
 * What the acceptor cannot enforce is refused by name: a text of the shape is valid by the schema.
 */
#ifndef CONSTRAINT_SCHEMA_H
#define CONSTRAINT_SCHEMA_H

#include <jansson.h>

#include "base/status.h"
#include "constraint/acceptor.h"
#include "json/json_digits.h"

/* Makes the node of all texts that are valid by `schema`, a JSON object or boolean. `digits`: of
 * its numbers, as exact_json_load gives them; NULL: they are what jansson's values are. */
Status schema_compile(Acceptor *acceptor, const json_t *schema, const JsonDigits *digits,
                      AcceptorNode *node, Error *error);

/* The node of all JSON objects. */
Status schema_any_object(Acceptor *acceptor, AcceptorNode *node, Error *error);

#endif
