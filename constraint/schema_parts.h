/* What the files of the schema compiler share. Calls go down this list only:
 *
 *     schema.c           schema_compile: sets of schemas to nodes
 *     schema_expand.c    a set of schemas to its alternatives; do two schemas exclude each other?
 *     schema_negate.c    `not` as a schema without it
 *     schema_strings.c   strings and formats
 *     schema_numbers.c   numbers
 *     schema_refs.c      where references lead
 *     schema_parts.c     small questions, counted work
 *
 * All schemas that one JSON value must be valid by form a set; a set is compiled once, whatever
 * leads to it. `allOf` and `$ref` add schemas to a set, `anyOf` and its kin divide it into
 * alternatives, and the set of a property's value is made of what each schema says about it. */
#ifndef CONSTRAINT_SCHEMA_PARTS_H
#define CONSTRAINT_SCHEMA_PARTS_H

#include <jansson.h>

#include "base/status.h"
#include "base/text.h"
#include "constraint/acceptor.h"
#include "constraint/json_digits.h"
#include "constraint/regex_derivative.h"

/* Keywords of our own, in schemas that the compiler itself writes. */
#define SCHEMA_NONE_OF "\x01none of"       /* an array of scalars that the value is not */
#define SCHEMA_NO_PATTERN "\x01no pattern" /* a pattern that a string does not match */
#define SCHEMA_NO_FORMAT "\x01no format"   /* the same of a format */
#define SCHEMA_FRACTION "\x01"             /* the type of numbers that are not whole */

/* Types, as bits. */
enum {
    TYPE_NULL = 1,
    TYPE_BOOLEAN = 2,
    TYPE_INTEGER = 4,
    TYPE_FRACTION = 8,
    TYPE_STRING = 16,
    TYPE_ARRAY = 32,
    TYPE_OBJECT = 64,
    TYPE_NUMBER = TYPE_INTEGER | TYPE_FRACTION,
    TYPE_ANY = 127
};

/* A list of schemas; `parents` where it matters who brought each. */
typedef struct SchemaList {
    const json_t **items;
    size_t n, capacity;
} SchemaList;

typedef struct SchemaSet {
    SchemaList key;    /* sorted by address, once each: what tells sets apart */
    SchemaList list;   /* as they were met first, which orders the members of objects */
    AcceptorNode node; /* a forward node */
} SchemaSet;

/* The schemas that a value must be valid by, all at once, without choices: one way through `anyOf`
 * and its kin. */
typedef struct SchemaAlternative {
    SchemaList schemas; /* objects; what their $ref and allOf lead to is in the list, too */
    size_t *parents;    /* [schemas.n] which of them brought each; SIZE_MAX: the set itself */
    bool *negated;      /* [schemas.n] its properties and items are not evaluated for its parents */
    unsigned types;
} SchemaAlternative;

typedef struct SchemaPlace {
    const json_t *schema;
    size_t base; /* of its references, in `bases` */
} SchemaPlace;

typedef struct SchemaCompiler {
    Acceptor *acceptor;
    RegexArena *regexes;
    Error *error;
    const json_t *root;
    bool refs_alone;    /* drafts up to 7: what stands beside a $ref is ignored */
    bool matches_alone; /* draft 2019-09: what matches `contains` is not evaluated by that */
    bool in_order;      /* members come in the order in which the schemas are taken */
    bool evaluates; /* what a branch evaluates matters: unevaluatedItems or ...Properties is used */
    SchemaSet *sets;
    size_t n_sets, sets_capacity, n_compiled;
    IndexTable set_table;
    json_t *nothing;          /* a schema that says nothing */
    json_t *made;             /* an array that owns the schemas that the compiler writes */
    json_t *by_uri;           /* { URI: index in places } */
    json_t *bases;            /* [URI] */
    json_t *negations;        /* { address: array of schemas } */
    const JsonDigits *digits; /* of exact_json.h: numbers that a double does not hold; NULL: none */
    SchemaPlace *places;
    size_t n_places, places_capacity;
    IndexTable place_table; /* by the address of their schemas */
    size_t work;
    Regex any_string, any_char, canonical;
} SchemaCompiler;

/* ---- schema_parts.c ---- */

unsigned schema_types(const json_t *schema, bool *known);
bool schema_is_scalar(const json_t *value);
/* A size keyword (minLength ...); false where it is absent. */
Status schema_size(SchemaCompiler *c, const json_t *schema, const char *keyword, uint32_t *size,
                   bool *given);

Status schema_no_memory(SchemaCompiler *c); /* sets the error */
/* Counts a step; false, and an error, past the limit. */
bool schema_count(SchemaCompiler *c, size_t steps);
bool schema_list_push(SchemaList *list, const json_t *schema); /* false: no memory */
/* Takes over a reference to a schema that the compiler wrote and gives it back; NULL: no memory. */
const json_t *schema_own(SchemaCompiler *c, json_t *schema);

/* ---- schema_refs.c ---- */

/* Notes where the schemas of the document are. */
Status schema_index(SchemaCompiler *c);
/* The schema that `reference`, which stands in `schema`, means. */
Status schema_resolve(SchemaCompiler *c, const json_t *schema, const char *keyword,
                      const char *reference, const json_t **target);

/* ---- schema_numbers.c ---- */

/* The texts of the numbers that all of `schemas` allow: of types INTEGER, FRACTION or both. */
Status schema_numbers(SchemaCompiler *c, const SchemaList *schemas, unsigned types, Regex *out);
/* The texts of a number, which has no exponent, that are allowed. */
Regex schema_number(SchemaCompiler *c, const json_t *value);
/* All texts of a number without an exponent: 1 is also 1.0 and 1.00, 0 also -0. */
Regex schema_number_forms(SchemaCompiler *c, const json_t *value);

/* ---- schema_strings.c ---- */

/* What the strings that all of `schemas` allow hold between their quotes. */
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
/* A value that is no object and no array, as a text. */
Regex schema_scalar(SchemaCompiler *c, const json_t *value);

/* The texts of all values of the alternative that are no objects and no arrays. */
Status schema_scalars(SchemaCompiler *c, const SchemaAlternative *a, Regex *out);

/* ---- schema_negate.c ---- */

/* An array of schemas, of which a value is valid by one exactly when it is not valid by `schema`.
 */
Status schema_negate(SchemaCompiler *c, const json_t *schema, const json_t **alternatives);

/* ---- schema_expand.c ---- */

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
