/* `not` as a schema without it. */
#ifndef CONSTRAINT_SCHEMA_NEGATE_H
#define CONSTRAINT_SCHEMA_NEGATE_H

#include "constraint/schema_parts.h"

/* An array of schemas, of which a value is valid by one exactly when it is not valid by `schema`.
 */
Status schema_negate(SchemaCompiler *c, const json_t *schema, const json_t **alternatives);

#endif
