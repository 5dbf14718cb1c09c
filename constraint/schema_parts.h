/* What the files of the schema compiler share. Calls go down this list only, and a
 * file's header says what it does for those above it:
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
#include "constraint/regex_derivative.h"
#include "json/json_digits.h"

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
    SchemaList list;   /* in the order of their first use, which orders the members of objects */
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
    Regex any_json_char;    /* one character in any form that JSON has for it: a, \u0061 */
    Regex canonical_char;   /* one character in the form that JSON writers give it */
    Regex canonical_string; /* any number of these */
} SchemaCompiler;

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

#endif
