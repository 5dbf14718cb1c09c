/* `not` as a schema without it. */
#ifndef CONSTRAINT_SCHEMA_NEGATE_H
#define CONSTRAINT_SCHEMA_NEGATE_H

#include "constraint/schema_parts.h"

/* Makes the negation of `schema`: an array of schemas such that a value is valid by at least one of
 * them exactly when it is not valid by `schema`.
 */
Status schema_negate(SchemaCompiler *c, const json_t *schema, const json_t **alternatives);

#endif
