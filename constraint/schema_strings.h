/* The strings and scalars that schemas allow, as texts. */
#ifndef CONSTRAINT_SCHEMA_STRINGS_H
#define CONSTRAINT_SCHEMA_STRINGS_H

#include "constraint/schema_parts.h"

/* Sets *out to what a string that all of `schemas` allow may hold between its quotes; REGEX_NONE:
 * there is no such string. */
Status schema_strings(SchemaCompiler *c, const SchemaList *schemas, Regex *out);
/* A `pattern`, as a JSON string that has a match holds it. */
Status schema_pattern(SchemaCompiler *c, const char *keyword, const char *pattern, size_t length,
                      Regex *out);
/* What any dialect may take the pattern to match; schema_pattern has refused what cannot be. */
Status schema_loose_pattern(SchemaCompiler *c, const char *pattern, Regex *out);
Regex schema_quoted(SchemaCompiler *c, Regex content);
Regex schema_string(SchemaCompiler *c, const char *text, size_t n); /* its content */
/* Appends a string as it is written between quotes. */
void schema_escape(TextBuffer *out, const char *text, size_t n);
/* Whether a string, in UTF-8, is one of those. */
bool schema_string_matches(SchemaCompiler *c, Regex content, const char *text, size_t n);
/* A value that is neither an object nor an array, as a text. */
Regex schema_scalar(SchemaCompiler *c, const json_t *value);

/* The texts of all values of the alternative that are no objects and no arrays. */
Status schema_scalars(SchemaCompiler *c, const SchemaAlternative *a, Regex *out);

#endif
