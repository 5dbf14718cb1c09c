/* Where the schemas of a document are, and where references lead. */
#ifndef CONSTRAINT_SCHEMA_REFS_H
#define CONSTRAINT_SCHEMA_REFS_H

#include "constraint/schema_parts.h"

/* Notes where the schemas of the document are. */
Status schema_index(SchemaCompiler *c);
/* The schema that `reference`, which stands in `schema`, means. */
Status schema_resolve(SchemaCompiler *c, const json_t *schema, const char *keyword,
                      const char *reference, const json_t **target);

#endif
