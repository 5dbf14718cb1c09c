/* The numbers that schemas allow, as texts. */
#ifndef CONSTRAINT_SCHEMA_NUMBERS_H
#define CONSTRAINT_SCHEMA_NUMBERS_H

#include "constraint/schema_parts.h"

/* The texts of the numbers that all of `schemas` allow: of types INTEGER, FRACTION or both. */
Status schema_numbers(SchemaCompiler *c, const SchemaList *schemas, unsigned types, Regex *out);
/* The texts of a number, which has no exponent, that are allowed. */
Regex schema_number(SchemaCompiler *c, const json_t *value);
/* All texts of a number without an exponent: 1 is also 1.0 and 1.00, 0 also -0. */
Regex schema_number_forms(SchemaCompiler *c, const json_t *value);

#endif
