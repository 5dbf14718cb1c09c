/* A set of schemas to its alternatives, and what they say about keys and items. */
#ifndef CONSTRAINT_SCHEMA_EXPAND_H
#define CONSTRAINT_SCHEMA_EXPAND_H

#include "constraint/schema_parts.h"

typedef Status (*SchemaVisit)(SchemaCompiler *c, const SchemaAlternative *a, void *context);
/* Calls `visit` for each alternative of the set that is not obviously empty. */
Status schema_expand(SchemaCompiler *c, const SchemaList *set, SchemaVisit visit, void *context);
/* The set of schemas for the value of a key in an object that is valid by all of the alternative's.
 * `matches(context, pattern)`: whether the key matches a pattern. name NULL: none of `properties`.
 * False in *possible: no value is valid. */
typedef Status (*SchemaKeyMatch)(SchemaCompiler *c, void *context, const char *pattern, bool *is);
Status schema_of_key(SchemaCompiler *c, const SchemaAlternative *a, const char *name, size_t length,
                     SchemaKeyMatch matches, void *context, SchemaList *out, bool *possible);
/* The set of schemas for item `index` of an array; one past all prefixes: any later item. `match`:
 * of one that matches the `contains` of that schema; SIZE_MAX: of any. */
Status schema_of_item(SchemaCompiler *c, const SchemaAlternative *a, size_t index, size_t match,
                      SchemaList *out, bool *possible);

#endif
