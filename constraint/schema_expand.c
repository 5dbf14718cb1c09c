#include "constraint/schema_expand.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "constraint/schema_negate.h"
#include "constraint/schema_refs.h"
#include "constraint/schema_strings.h"

enum { MOST_BRANCH_DEPTH = 400, CHECK_DEPTH = 6 };
enum { MOST_EVALUATED = 4 }; /* branches of an anyOf that are taken several at a time */

/* ---- Small questions ------------------------------------------------------------------------- */

/* Returns the TYPE_ bits of a JSON value. A real number that is whole, such as 1.0, counts as both
 * integer and fraction. */
static unsigned value_types(const json_t *value) {
    switch (json_typeof(value)) {
    case JSON_NULL:
        return TYPE_NULL;
    case JSON_TRUE:
    case JSON_FALSE:
        return TYPE_BOOLEAN;
    case JSON_INTEGER:
        return TYPE_INTEGER;
    case JSON_REAL:
        return floor(json_real_value(value)) == json_real_value(value) ? TYPE_NUMBER
                                                                       : TYPE_FRACTION;
    case JSON_STRING:
        return TYPE_STRING;
    case JSON_ARRAY:
        return TYPE_ARRAY;
    default:
        return TYPE_OBJECT;
    }
}

/* ---- Values and choices as schemas ------------------------------------------------------------
 */

/* A schema of all values that equal an object or an array. */
static json_t *schema_of_value(const json_t *value) {
    const char *name;
    size_t i;
    json_t *item;
    if (json_is_array(value)) {
        json_t *items = json_array();
        json_array_foreach((json_t *)value, i, item) {
            json_array_append_new(items, json_pack("{s:O}", "const", item));
        }
        json_int_t n = (json_int_t)json_array_size(value);
        return json_pack("{s:s,s:o,s:I,s:I}", "type", "array", "prefixItems", items, "minItems", n,
                         "maxItems", n);
    }
    json_t *properties = json_object(), *required = json_array();
    json_object_foreach((json_t *)value, name, item) {
        json_object_set_new_nocheck(properties, name, json_pack("{s:O}", "const", item));
        json_array_append_new(required, json_string_nocheck(name));
    }
    return json_pack("{s:s,s:o,s:o,s:b}", "type", "object", "properties", properties, "required",
                     required, "additionalProperties", 0);
}

/* What was made for (kind, schema) before, or NULL. */
static const json_t *made_before(SchemaCompiler *c, char kind, const json_t *schema) {
    char key[40];
    snprintf(key, sizeof key, "%c%p", kind, (const void *)schema);
    return json_object_get(c->negations, key);
}

static const json_t *keep_made(SchemaCompiler *c, char kind, const json_t *schema, json_t *made) {
    char key[40];
    snprintf(key, sizeof key, "%c%p", kind, (const void *)schema);
    if (!made || json_array_append(c->made, (json_t *)schema) != 0 ||
        json_array_append(c->made, made) != 0 ||
        json_object_set_new(c->negations, key, made) != 0) {
        schema_no_memory(c);
        return NULL;
    }
    return made;
}

/* The alternatives of an enum, or of a const, that holds objects or arrays. */
static const json_t *value_choices(SchemaCompiler *c, const json_t *schema) {
    const json_t *known = made_before(c, 'e', schema);
    if (known) return known;
    const json_t *constant = json_object_get(schema, "const");
    json_t *values =
        constant ? json_pack("[O]", constant) : json_incref(json_object_get(schema, "enum"));
    json_t *out = json_array(), *scalars = json_array(), *item;
    size_t i;
    json_array_foreach(values, i, item) {
        if (schema_is_scalar(item))
            json_array_append(scalars, item);
        else
            json_array_append_new(out, schema_of_value(item));
    }
    if (json_array_size(scalars) > 0)
        json_array_append_new(out, json_pack("{s:[s,s,s,s],s:O}", "type", "null", "boolean",
                                             "number", "string", "enum", scalars));
    json_decref(scalars);
    json_decref(values);
    return keep_made(c, 'e', schema, out);
}

static Status exclude_each_other(SchemaCompiler *c, const json_t *x, const json_t *y,
                                 bool *exclude);

/* The alternatives of oneOf: each branch, with `not` of those that it may overlap with. */
static Status one_of_choices(SchemaCompiler *c, const json_t *schema, const json_t **choices) {
    const json_t *branches = json_object_get(schema, "oneOf");
    size_t n = json_array_size(branches);
    *choices = made_before(c, 'o', schema);
    if (*choices) return STATUS_OK;
    json_t *out = json_array(), **nots = calloc(n + 1, sizeof *nots);
    /* What comes back to this oneOf meanwhile sees it without the exclusion. */
    Status status = nots && keep_made(c, 'o', schema, json_copy((json_t *)branches))
                        ? STATUS_OK
                        : schema_no_memory(c);
    for (size_t i = 0; i < n && status == STATUS_OK; i++)
        for (size_t k = i + 1; k < n && status == STATUS_OK; k++) {
            const json_t *x = json_array_get(branches, i), *y = json_array_get(branches, k);
            bool exclude = false;
            status = exclude_each_other(c, x, y, &exclude);
            if (status != STATUS_OK || exclude) continue;
            if (!nots[i]) nots[i] = json_array();
            if (!nots[k]) nots[k] = json_array();
            json_array_append_new(nots[i], json_pack("{s:O}", "not", y));
            json_array_append_new(nots[k], json_pack("{s:O}", "not", x));
        }
    for (size_t i = 0; i < n && status == STATUS_OK; i++) {
        json_t *branch = json_array_get(branches, i);
        if (nots[i]) json_array_insert(nots[i], 0, branch);
        json_array_append_new(out,
                              nots[i] ? json_pack("{s:O}", "allOf", nots[i]) : json_incref(branch));
    }
    for (size_t i = 0; nots && i < n; i++) json_decref(nots[i]);
    free(nots);
    if (status == STATUS_OK && !(*choices = keep_made(c, 'o', schema, out))) status = STATUS_FAILED;
    if (status != STATUS_OK && !*choices) json_decref(out);
    return status;
}

/* The alternatives of anyOf. Usually these are its branches. With unevaluatedProperties or
 * unevaluatedItems (c->evaluates) it matters which branches hold together: then each set of
 * branches is an alternative. Of more than MOST_EVALUATED branches there are too many sets: one
 * branch holds at a time. */
static const json_t *any_of_choices(SchemaCompiler *c, const json_t *schema) {
    const json_t *branches = json_object_get(schema, "anyOf");
    size_t n = json_array_size(branches);
    if (!c->evaluates || n > MOST_EVALUATED) return branches;
    const json_t *known = made_before(c, 'a', schema);
    if (known) return known;
    json_t *out = json_array();
    for (size_t set = 1; set < (size_t)1 << n; set++) {
        json_t *all = json_array();
        for (size_t i = 0; i < n; i++)
            if (set >> i & 1) json_array_append(all, json_array_get(branches, i));
        json_array_append_new(out, json_pack("{s:o}", "allOf", all));
    }
    return keep_made(c, 'a', schema, out);
}

static const json_t *if_choices(SchemaCompiler *c, const json_t *schema) {
    const json_t *known = made_before(c, 'i', schema);
    if (known) return known;
    json_t *condition = json_object_get(schema, "if"), *then = json_object_get(schema, "then"),
           *otherwise = json_object_get(schema, "else");
    if (!then && !otherwise) /* it only evaluates */
        return keep_made(c, 'i', schema, json_pack("[b,O]", 1, condition));
    json_t *yes = json_pack("{s:[O]}", "allOf", condition);
    json_t *no = json_pack("{s:[{s:O}]}", "allOf", "not", condition);
    if (then) json_array_append(json_object_get(yes, "allOf"), then);
    if (otherwise) json_array_append(json_object_get(no, "allOf"), otherwise);
    return keep_made(c, 'i', schema, json_pack("[o,o]", yes, no));
}

/* The alternatives of "where the property `name` is present, `schema` holds". */
static const json_t *dependency_choices(SchemaCompiler *c, const char *name, const json_t *schema) {
    /* true and false have one address each, whatever their name is. */
    const json_t *known = json_is_object(schema) ? made_before(c, 'd', schema) : NULL;
    if (known) return known;
    json_t *absent = json_pack("{s:s,s:{s:b}}", "type", "object", "properties", name, 0);
    json_t *present =
        json_pack("{s:s,s:[s],s:[O]}", "type", "object", "required", name, "allOf", schema);
    json_t *other =
        json_pack("{s:[s,s,s,s,s]}", "type", "null", "boolean", "number", "string", "array");
    json_t *choices = json_pack("[o,o,o]", absent, present, other);
    return json_is_object(schema) ? keep_made(c, 'd', schema, choices) : schema_own(c, choices);
}

/* ---- Expansion ------------------------------------------------------------------------------- */

/* A schema that is still to be added, or an array of which one is. */
typedef struct Todo {
    const json_t *schema;
    size_t parent;
    bool negated;
} Todo;

typedef struct TodoList {
    Todo *items;
    size_t n, capacity;
} TodoList;

typedef struct Branch {
    SchemaAlternative a;
    const json_t **origins; /* [schemas.n] where each comes from */
    size_t origins_capacity, parents_capacity, negated_capacity;
    TodoList todo, choices;
} Branch;

static void branch_free(Branch *b) {
    free(b->a.schemas.items);
    free(b->a.parents);
    free(b->a.negated);
    free(b->origins);
    free(b->todo.items);
    free(b->choices.items);
}

static bool push_todo(TodoList *list, Todo todo) {
    if (!array_reserve(&list->items, &list->capacity, list->n + 1, sizeof *list->items))
        return false;
    list->items[list->n++] = todo;
    return true;
}

static bool push(TodoList *list, const json_t *schema, size_t parent) {
    return push_todo(list, (Todo){schema, parent, false});
}

/* Copies all of a branch but its `todo` list, so that each alternative of a choice goes on with a
 * copy. Returns false where memory is short. */
static bool copy_branch(const Branch *from, Branch *to) {
    size_t n = from->a.schemas.n;
    *to = (Branch){.a.types = from->a.types};
    bool fits =
        array_reserve(&to->a.schemas.items, &to->a.schemas.capacity, n + 1,
                      sizeof *to->a.schemas.items) &&
        array_reserve(&to->a.parents, &to->parents_capacity, n + 1, sizeof *to->a.parents) &&
        array_reserve(&to->a.negated, &to->negated_capacity, n + 1, sizeof *to->a.negated) &&
        array_reserve(&to->origins, &to->origins_capacity, n + 1, sizeof *to->origins) &&
        array_reserve(&to->choices.items, &to->choices.capacity, from->choices.n + 1,
                      sizeof *to->choices.items);
    if (!fits) return false;
    to->a.schemas.n = n;
    to->choices.n = from->choices.n;
    if (n > 0) {
        memcpy(to->a.schemas.items, from->a.schemas.items, n * sizeof *from->a.schemas.items);
        memcpy(to->a.parents, from->a.parents, n * sizeof *from->a.parents);
        memcpy(to->a.negated, from->a.negated, n * sizeof *from->a.negated);
        memcpy(to->origins, from->origins, n * sizeof *from->origins);
    }
    if (from->choices.n > 0)
        memcpy(to->choices.items, from->choices.items, from->choices.n * sizeof *to->choices.items);
    return true;
}

static Status add_choice(SchemaCompiler *c, Branch *b, const json_t *choices, size_t parent) {
    if (!choices) return STATUS_FAILED;
    return push(&b->choices, choices, parent) ? STATUS_OK : schema_no_memory(c);
}

static Status schema_array(SchemaCompiler *c, const json_t *schema, const char *keyword,
                           const json_t **array) {
    *array = json_object_get(schema, keyword);
    if (!*array || (json_is_array(*array) && json_array_size(*array) > 0)) return STATUS_OK;
    return error_set(c->error, "'%s' must be a list of schemas that is not empty", keyword);
}

static Status add_references(SchemaCompiler *c, Branch *b, const json_t *schema, size_t at) {
    static const char *const keywords[] = {"$ref", "$dynamicRef", "$recursiveRef"};
    for (int i = 0; i < 3; i++) {
        const json_t *reference = json_object_get(schema, keywords[i]), *target;
        if (!reference) continue;
        if (!json_is_string(reference))
            return error_set(c->error, "'%s' must be a text", keywords[i]);
        if (i > 0 && json_array_size(c->bases) > 1)
            return error_set(c->error, "'%s' among several '$id' cannot be enforced", keywords[i]);
        if (schema_resolve(c, schema, keywords[i], json_string_value(reference), &target) !=
            STATUS_OK)
            return STATUS_FAILED;
        if (!push(&b->todo, target, at)) return schema_no_memory(c);
    }
    return STATUS_OK;
}

static Status add_dependencies(SchemaCompiler *c, Branch *b, const json_t *schema, size_t at) {
    static const char *const keywords[] = {"dependentSchemas", "dependencies"};
    for (int i = 0; i < 2; i++) {
        const char *name;
        json_t *value, *all = json_object_get(schema, keywords[i]);
        json_object_foreach(all, name, value) {
            if (json_is_array(value) || json_is_string(value)) continue; /* names: of the object */
            if (add_choice(c, b, dependency_choices(c, name, value), at) != STATUS_OK)
                return STATUS_FAILED;
        }
    }
    return STATUS_OK;
}

/* Applies a schema's `const` or `enum`: narrows the branch's types to the values' types and, where
 * some are objects or arrays, adds a choice among schemas made of the values. A schema with both
 * keywords is split into two. */
static Status add_values(SchemaCompiler *c, Branch *b, const json_t *schema, size_t at) {
    const json_t *constant = json_object_get(schema, "const");
    const json_t *list = json_object_get(schema, "enum");
    unsigned types = 0;
    bool compound = false;
    size_t i;
    json_t *item;
    if (!constant && !list) return STATUS_OK;
    if (constant && list) {
        json_t *both = json_pack("[{s:O},{s:O}]", "const", constant, "enum", list);
        if (!both || json_array_append_new(c->made, both) != 0) return schema_no_memory(c);
        for (i = 0; i < 2; i++)
            if (!push(&b->todo, json_array_get(both, i), at)) return schema_no_memory(c);
        return STATUS_OK;
    }
    if (list && !json_is_array(list)) return error_set(c->error, "'enum' must be a list");
    if (constant) types = value_types(constant), compound = !schema_is_scalar(constant);
    json_array_foreach((json_t *)list, i, item) {
        types |= value_types(item);
        compound |= !schema_is_scalar(item);
    }
    b->a.types &= types;
    if (!compound) return STATUS_OK;
    /* The schemas of objects and arrays use `properties` and `prefixItems`, but a const or an enum
     * evaluates nothing. */
    const json_t *choices = value_choices(c, schema);
    if (!choices) return STATUS_FAILED;
    return push_todo(&b->choices, (Todo){choices, at, true}) ? STATUS_OK : schema_no_memory(c);
}

/* Adds to the branch the subschemas that a schema applies ($ref, allOf, anyOf, oneOf, not, if,
 * dependencies), and restricts its types and values. */
static Status add_applied(SchemaCompiler *c, Branch *b, const json_t *schema, size_t at) {
    const json_t *list, *choices;
    size_t i;
    json_t *item;
    if (add_references(c, b, schema, at) != STATUS_OK) return STATUS_FAILED;
    if (c->refs_alone && json_object_get(schema, "$ref")) return STATUS_OK;
    bool known;
    b->a.types &= schema_types(schema, &known);
    if (!known) return error_set(c->error, "'type' must name types of JSON");
    if (schema_array(c, schema, "allOf", &list) != STATUS_OK) return STATUS_FAILED;
    json_array_foreach((json_t *)list, i, item) {
        if (!push(&b->todo, item, at)) return schema_no_memory(c);
    }
    if (schema_array(c, schema, "anyOf", &list) != STATUS_OK) return STATUS_FAILED;
    if (list && add_choice(c, b, any_of_choices(c, schema), at) != STATUS_OK) return STATUS_FAILED;
    if (schema_array(c, schema, "oneOf", &list) != STATUS_OK) return STATUS_FAILED;
    if (list && (one_of_choices(c, schema, &choices) != STATUS_OK ||
                 add_choice(c, b, choices, at) != STATUS_OK))
        return STATUS_FAILED;
    const json_t *no = json_object_get(schema, "not");
    if (no) {
        if (schema_negate(c, no, &choices) != STATUS_OK) return STATUS_FAILED;
        if (!push_todo(&b->choices, (Todo){choices, at, true})) return schema_no_memory(c);
    }
    bool conditional =
        c->evaluates || json_object_get(schema, "then") || json_object_get(schema, "else");
    if (json_object_get(schema, "if") && conditional &&
        add_choice(c, b, if_choices(c, schema), at) != STATUS_OK)
        return STATUS_FAILED;
    if (add_dependencies(c, b, schema, at) != STATUS_OK) return STATUS_FAILED;
    return add_values(c, b, schema, at);
}

/* The schemas to take are a stack: turns those that one schema has added around, so that they are
 * taken in the order in which it names them. */
static void in_reading_order(TodoList *list, size_t first) {
    for (size_t last = list->n; last > first + 1; first++) {
        Todo swap = list->items[first];
        list->items[first] = list->items[--last];
        list->items[last] = swap;
    }
}

/* Takes one schema; *dead: no value is valid by it. */
static Status add_schema(SchemaCompiler *c, Branch *b, Todo todo, bool *dead) {
    const json_t *schema = todo.schema;
    if (!schema_count(c, 1 + b->a.schemas.n / 8)) return STATUS_FAILED;
    if (json_is_true(schema)) return STATUS_OK;
    if (json_is_false(schema)) {
        *dead = true;
        return STATUS_OK;
    }
    if (!json_is_object(schema))
        return error_set(c->error, "a schema must be an object, true or false");
    for (size_t p = todo.parent; p != SIZE_MAX; p = b->a.parents[p])
        if (b->origins[p] == schema)
            return error_set(c->error, "a reference leads back to itself without end");
    for (size_t i = 0; i < b->a.schemas.n; i++)
        if (b->origins[i] == schema) return STATUS_OK;
    size_t at = b->a.schemas.n;
    bool alone = c->refs_alone && json_object_get(schema, "$ref");
    const json_t *kept = alone ? c->nothing : schema;
    if (!array_reserve(&b->a.parents, &b->parents_capacity, at + 1, sizeof *b->a.parents) ||
        !array_reserve(&b->a.negated, &b->negated_capacity, at + 1, sizeof *b->a.negated) ||
        !array_reserve(&b->origins, &b->origins_capacity, at + 1, sizeof *b->origins) ||
        !schema_list_push(&b->a.schemas, kept))
        return schema_no_memory(c);
    b->a.parents[at] = todo.parent;
    b->a.negated[at] = todo.negated;
    b->origins[at] = schema;
    size_t first = b->todo.n;
    if (add_applied(c, b, schema, at) != STATUS_OK) return STATUS_FAILED;
    if (c->in_order) in_reading_order(&b->todo, first);
    *dead |= b->a.types == 0;
    return STATUS_OK;
}

/* The last choice or, where the order in which schemas are taken orders the members, the first. */
static Todo take_choice(const SchemaCompiler *c, TodoList *choices) {
    size_t at = c->in_order ? 0 : choices->n - 1;
    Todo choice = choices->items[at];
    choices->n--;
    memmove(choices->items + at, choices->items + at + 1,
            (choices->n - at) * sizeof *choices->items);
    return choice;
}

/* Applies all schemas that the branch still has to take, then follows each alternative of its
 * choices in a branch of its own. Visits every branch that has no choices left. Takes the branch
 * over. */
static Status expand_branch(SchemaCompiler *c, Branch *b, unsigned depth, SchemaVisit visit,
                            void *context) {
    Status status = STATUS_OK;
    bool dead = false;
    while (b->todo.n > 0 && status == STATUS_OK && !dead)
        status = add_schema(c, b, b->todo.items[--b->todo.n], &dead);
    if (status == STATUS_OK && !dead && b->choices.n == 0) {
        /* Each visit looks at all the schemas that the branch has. */
        status = schema_count(c, 1 + b->a.schemas.n / 8) ? visit(c, &b->a, context) : STATUS_FAILED;
        if (status == STATUS_OK && c->regexes->failed)
            status = error_set(c->error, "the schema cannot be enforced: %s", c->regexes->failed);
    } else if (status == STATUS_OK && !dead) {
        Todo choice = take_choice(c, &b->choices);
        size_t n = json_array_size(choice.schema);
        if (depth > MOST_BRANCH_DEPTH)
            status = error_set(c->error, "too many choices are nested in each other");
        for (size_t i = 0; i < n && status == STATUS_OK; i++) {
            Branch next;
            bool copied = copy_branch(b, &next) &&
                          push_todo(&next.todo, (Todo){json_array_get(choice.schema, i),
                                                       choice.parent, choice.negated});
            status =
                copied ? expand_branch(c, &next, depth + 1, visit, context) : schema_no_memory(c);
            if (!copied) branch_free(&next);
        }
    }
    branch_free(b);
    return status;
}

Status schema_expand(SchemaCompiler *c, const SchemaList *set, SchemaVisit visit, void *context) {
    Branch b = {.a.types = TYPE_ANY};
    for (size_t i = set->n; i-- > 0;)
        if (!push(&b.todo, set->items[i], SIZE_MAX)) {
            branch_free(&b);
            return schema_no_memory(c);
        }
    return expand_branch(c, &b, 0, visit, context);
}

/* ---- What the schemas say of a property or an item ------------------------------------------ */

static bool descends(const SchemaAlternative *a, size_t from, size_t ancestor) {
    while (from != SIZE_MAX && from != ancestor)
        from = a->negated[from] ? SIZE_MAX : a->parents[from];
    return from == ancestor;
}

/* Adds a schema to the set; false where it forbids everything. */
static Status expand_take(SchemaCompiler *c, SchemaList *out, const json_t *schema,
                          bool *possible) {
    if (json_is_false(schema)) *possible = false;
    if (json_is_true(schema) || json_is_false(schema)) return STATUS_OK;
    return schema_list_push(out, schema) ? STATUS_OK : schema_no_memory(c);
}

/* Collects properties, patternProperties and additionalProperties of each schema first, and then
 * unevaluatedProperties of the schemas where neither they nor a schema inside of them has taken the
 * key. */
Status schema_of_key(SchemaCompiler *c, const SchemaAlternative *a, const char *name, size_t length,
                     SchemaKeyMatch matches, void *context, SchemaList *out, bool *possible) {
    size_t n = a->schemas.n;
    bool *evaluated = calloc(n + 1, sizeof *evaluated);
    Status status = evaluated ? STATUS_OK : schema_no_memory(c);
    *possible = true;
    for (size_t i = 0; i < n && status == STATUS_OK; i++) {
        const json_t *s = a->schemas.items[i];
        const json_t *rest = json_object_get(s, "additionalProperties");
        json_t *named = NULL, *value;
        const char *pattern;
        if (name) named = json_object_getn(json_object_get(s, "properties"), name, length);
        if (named) status = expand_take(c, out, named, possible), evaluated[i] = true;
        json_object_foreach(json_object_get(s, "patternProperties"), pattern, value) {
            bool is = false;
            if (status == STATUS_OK) status = matches(c, context, pattern, &is);
            if (status == STATUS_OK && is) status = expand_take(c, out, value, possible);
            evaluated[i] |= is;
        }
        if (!evaluated[i] && rest && status == STATUS_OK)
            status = expand_take(c, out, rest, possible), evaluated[i] = true;
    }
    for (size_t i = 0; i < n && status == STATUS_OK; i++) {
        const json_t *rest = json_object_get(a->schemas.items[i], "unevaluatedProperties");
        bool done = false;
        if (!rest) continue;
        for (size_t k = 0; k < n; k++)
            done |= (evaluated[k] ||
                     (k != i && json_object_get(a->schemas.items[k], "unevaluatedProperties"))) &&
                    descends(a, k, i);
        if (!done) status = expand_take(c, out, rest, possible);
    }
    free(evaluated);
    return status;
}

Status schema_of_item(SchemaCompiler *c, const SchemaAlternative *a, size_t index, size_t match,
                      SchemaList *out, bool *possible) {
    Status status = STATUS_OK;
    size_t n = a->schemas.n;
    bool *evaluated = calloc(n + 1, sizeof *evaluated);
    if (!evaluated) return schema_no_memory(c);
    *possible = true;
    for (size_t i = 0; i < n && status == STATUS_OK; i++) {
        const json_t *s = a->schemas.items[i], *items = json_object_get(s, "items");
        const json_t *first = json_object_get(s, "prefixItems"), *rest = items, *own;
        if (json_is_array(items)) first = items, rest = json_object_get(s, "additionalItems");
        own = index < json_array_size(first) ? json_array_get(first, index) : rest;
        if (!own) continue;
        evaluated[i] = true;
        status = expand_take(c, out, own, possible);
    }
    if (match != SIZE_MAX && status == STATUS_OK) {
        evaluated[match] |= !c->matches_alone;
        status =
            expand_take(c, out, json_object_get(a->schemas.items[match], "contains"), possible);
    }
    for (size_t i = 0; i < n && status == STATUS_OK; i++) {
        const json_t *rest = json_object_get(a->schemas.items[i], "unevaluatedItems");
        bool done = false;
        if (!rest) continue;
        for (size_t k = 0; k < n; k++)
            done |= (evaluated[k] ||
                     (k != i && json_object_get(a->schemas.items[k], "unevaluatedItems"))) &&
                    descends(a, k, i);
        if (!done) status = expand_take(c, out, rest, possible);
    }
    free(evaluated);
    return status;
}

/* ---- Whether two schemas exclude each other ---------------------------------------------------
 */

typedef struct Check {
    unsigned depth;
    bool found; /* a value that is valid by all of them, as far as was looked */
} Check;

static Status may_hold(SchemaCompiler *c, const SchemaList *set, unsigned depth, bool *may);

static Status match_name(SchemaCompiler *c, void *context, const char *pattern, bool *is) {
    const char *name = context;
    Regex regex;
    if (schema_pattern(c, "patternProperties", pattern, strlen(pattern), &regex) != STATUS_OK)
        return STATUS_FAILED;
    *is = schema_string_matches(c, regex, name, strlen(name));
    return STATUS_OK;
}

/* Whether an object may be valid by the alternative, as far as its required members tell. */
static Status object_may_hold(SchemaCompiler *c, const SchemaAlternative *a, unsigned depth,
                              bool *may) {
    Status status = STATUS_OK;
    *may = true;
    for (size_t i = 0; i < a->schemas.n && status == STATUS_OK && *may; i++) {
        size_t k;
        json_t *name;
        json_array_foreach(json_object_get(a->schemas.items[i], "required"), k, name) {
            SchemaList set = {0};
            bool possible = true;
            if (!json_is_string(name) || status != STATUS_OK || !*may) continue;
            status = schema_of_key(c, a, json_string_value(name), json_string_length(name),
                                   match_name, (void *)json_string_value(name), &set, &possible);
            if (status == STATUS_OK && possible && depth > 0)
                status = may_hold(c, &set, depth - 1, &possible);
            free(set.items);
            *may &= possible;
        }
    }
    return status;
}

/* The same of an array, by its number of items and the first of those that it must have. */
static Status array_may_hold(SchemaCompiler *c, const SchemaAlternative *a, unsigned depth,
                             bool *may) {
    uint32_t min = 0, max = UINT32_MAX, size;
    bool given;
    *may = true;
    for (size_t i = 0; i < a->schemas.n; i++) {
        if (schema_size(c, a->schemas.items[i], "minItems", &size, &given) != STATUS_OK)
            return STATUS_FAILED;
        if (given && size > min) min = size;
        if (schema_size(c, a->schemas.items[i], "maxItems", &size, &given) != STATUS_OK)
            return STATUS_FAILED;
        if (given && size < max) max = size;
    }
    *may = min <= max;
    for (uint32_t i = 0; i < min && i < 8 && *may; i++) {
        SchemaList set = {0};
        Status status = schema_of_item(c, a, i, SIZE_MAX, &set, may);
        if (status == STATUS_OK && *may && depth > 0) status = may_hold(c, &set, depth - 1, may);
        free(set.items);
        if (status != STATUS_OK) return status;
    }
    return STATUS_OK;
}

static Status check_alternative(SchemaCompiler *c, const SchemaAlternative *a, void *context) {
    Check *check = context;
    Regex scalars = REGEX_NONE;
    bool may = false;
    Status status = schema_scalars(c, a, &scalars);
    if (status == STATUS_OK && regex_live(c->regexes, scalars)) may = true;
    if (status == STATUS_OK && !may && a->types & TYPE_OBJECT)
        status = object_may_hold(c, a, check->depth, &may);
    if (status == STATUS_OK && !may && a->types & TYPE_ARRAY)
        status = array_may_hold(c, a, check->depth, &may);
    check->found |= may;
    return status == STATUS_OK && may ? STATUS_INTERRUPTED : status; /* no need to go on */
}

static Status may_hold(SchemaCompiler *c, const SchemaList *set, unsigned depth, bool *may) {
    Check check = {.depth = depth};
    Status status = schema_expand(c, set, check_alternative, &check);
    *may = check.found;
    return status == STATUS_INTERRUPTED ? STATUS_OK : status;
}

static Status exclude_each_other(SchemaCompiler *c, const json_t *x, const json_t *y,
                                 bool *exclude) {
    const json_t *both[] = {x, y};
    SchemaList set = {.items = both, .n = 2};
    bool may = true;
    Status status = may_hold(c, &set, CHECK_DEPTH, &may);
    *exclude = !may;
    return status;
}
