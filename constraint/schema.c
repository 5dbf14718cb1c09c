#include "constraint/schema.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/array.h"
#include "constraint/character_sets.h"
#include "constraint/schema_expand.h"
#include "constraint/schema_refs.h"
#include "constraint/schema_strings.h"

enum { MOST_GROUPS = 64 };

/* ---- Sets ------------------------------------------------------------------------------------ */

static int compare_schemas(const void *a, const void *b) {
    uintptr_t x = (uintptr_t) * (const json_t *const *)a,
              y = (uintptr_t) * (const json_t *const *)b;
    return x < y ? -1 : x > y;
}

static uint64_t hash_list(const SchemaList *list) {
    return XXH3_64bits(list->items, list->n * sizeof *list->items);
}

static uint64_t hash_set(const void *compiler, uint32_t i) {
    return hash_list(&((const SchemaCompiler *)compiler)->sets[i].key);
}

/* Takes the schemas that say nothing out of the list, and makes its key. */
static bool make_key(SchemaList *list, SchemaList *key) {
    size_t n = 0;
    for (size_t i = 0; i < list->n; i++) {
        bool empty = json_is_object(list->items[i]) && json_object_size(list->items[i]) == 0;
        if (!empty) list->items[n++] = list->items[i];
    }
    list->n = n;
    *key = (SchemaList){.items = malloc((n + 1) * sizeof *key->items)};
    if (!key->items) return false;
    if (n > 0) memcpy(key->items, list->items, n * sizeof *key->items);
    if (n > 1) qsort(key->items, n, sizeof *key->items, compare_schemas);
    for (size_t i = 0; i < n; i++)
        if (key->n == 0 || key->items[i] != key->items[key->n - 1])
            key->items[key->n++] = key->items[i];
    return true;
}

/* The node of a set, which is compiled later where it is new. Takes the list over. */
static Status node_of(SchemaCompiler *c, SchemaList *list, AcceptorNode *node) {
    SchemaList key = {0};
    IndexTable *table = &c->set_table;
    if (!make_key(list, &key) || !index_table_reserve(table, hash_set, c) ||
        !array_reserve(&c->sets, &c->sets_capacity, c->n_sets + 1, sizeof *c->sets)) {
        free(key.items);
        free(list->items);
        return schema_no_memory(c);
    }
    size_t at = index_table_first(table, hash_list(&key));
    for (; table->slots[at]; at = index_table_next(table, at)) {
        const SchemaSet *s = &c->sets[table->slots[at] - 1];
        if (s->key.n != key.n ||
            (key.n > 0 && memcmp(s->key.items, key.items, key.n * sizeof *key.items) != 0))
            continue;
        *node = s->node;
        free(key.items);
        free(list->items);
        return schema_count(c, 1) ? STATUS_OK : STATUS_FAILED;
    }
    index_table_set(table, at, c->n_sets);
    *node = acceptor_forward(c->acceptor);
    c->sets[c->n_sets++] = (SchemaSet){key, *list, *node};
    return schema_count(c, 1) ? STATUS_OK : STATUS_FAILED;
}

/* ---- Objects --------------------------------------------------------------------------------- */

/* An object that is being compiled. */
typedef struct ObjectBuild {
    const SchemaAlternative *a;
    json_t *names;     /* { name: index in members } */
    json_t *patterns;  /* { pattern: index in regexes } */
    Regex *regexes;    /* of the patterns */
    Regex *loose;      /* what any dialect may take them to match */
    Regex names_regex; /* of propertyNames; REGEX_NONE: none */
    ObjectMember *members;
    size_t n, capacity;
    ObjectDependency *dependencies;
    size_t n_dependencies, dependencies_capacity;
    uint32_t min, max;
    bool *included; /* the patterns that the keys of a group match */
    const char *name;
} ObjectBuild;

static void object_free(ObjectBuild *o) {
    json_decref(o->names);
    json_decref(o->patterns);
    free(o->regexes);
    free(o->loose);
    free(o->members);
    free(o->dependencies);
    free(o->included);
}

static Status add_name(SchemaCompiler *c, ObjectBuild *o, const char *name) {
    if (json_object_get(o->names, name)) return STATUS_OK;
    if (!array_reserve(&o->members, &o->capacity, o->n + 1, sizeof *o->members) ||
        json_object_set_new_nocheck(o->names, name, json_integer((json_int_t)o->n)) != 0)
        return schema_no_memory(c);
    o->members[o->n++] = (ObjectMember){.value = ACCEPTOR_NO_NODE};
    return schema_count(c, 1) ? STATUS_OK : STATUS_FAILED;
}

static size_t name_index(const ObjectBuild *o, const char *name) {
    return (size_t)json_integer_value(json_object_get(o->names, name));
}

/* Adds the dependencies of `dependentRequired` or of the older `dependencies`: where one member is
 * there, the other must be. Schemas in `dependencies` are not handled here. */
static Status add_dependencies(SchemaCompiler *c, ObjectBuild *o, const json_t *all) {
    const char *name;
    json_t *list, *item;
    size_t i;
    json_object_foreach((json_t *)all, name, list) {
        if (!json_is_array(list) && !json_is_string(list)) continue;
        size_t n = json_is_array(list) ? json_array_size(list) : 1;
        for (i = 0; i < n; i++) {
            item = json_is_array(list) ? json_array_get(list, i) : list;
            if (!json_is_string(item))
                return error_set(c->error, "'dependentRequired' must list names");
            if (add_name(c, o, name) != STATUS_OK ||
                add_name(c, o, json_string_value(item)) != STATUS_OK)
                return STATUS_FAILED;
            if (!array_reserve(&o->dependencies, &o->dependencies_capacity, o->n_dependencies + 1,
                               sizeof *o->dependencies))
                return schema_no_memory(c);
            o->dependencies[o->n_dependencies++] = (ObjectDependency){
                (uint32_t)name_index(o, name), (uint32_t)name_index(o, json_string_value(item))};
        }
    }
    return STATUS_OK;
}

static Status must_be_object(SchemaCompiler *c, const json_t *schema, const char *keyword) {
    const json_t *value = json_object_get(schema, keyword);
    if (!value || json_is_object(value)) return STATUS_OK;
    return error_set(c->error, "'%s' must be an object", keyword);
}

/* Collects the names of `properties`: in order, before any that `required` or a dependency alone
 * knows. */
static Status read_properties(SchemaCompiler *c, ObjectBuild *o, const json_t *s) {
    const char *name;
    json_t *value;
    if (must_be_object(c, s, "properties") != STATUS_OK) return STATUS_FAILED;
    json_object_foreach(json_object_get(s, "properties"), name, value) {
        if (add_name(c, o, name) != STATUS_OK) return STATUS_FAILED;
    }
    return STATUS_OK;
}

/* Collects the names that one schema knows. */
static Status read_object(SchemaCompiler *c, ObjectBuild *o, const json_t *s) {
    static const char *const maps[] = {"properties", "patternProperties", "dependentRequired",
                                       "dependencies", "dependentSchemas"};
    const char *name;
    json_t *value;
    uint32_t size;
    bool given;
    size_t i;
    for (i = 0; i < sizeof maps / sizeof *maps; i++)
        if (must_be_object(c, s, maps[i]) != STATUS_OK) return STATUS_FAILED;
    if (read_properties(c, o, s) != STATUS_OK) return STATUS_FAILED;
    const json_t *required = json_object_get(s, "required");
    if (required && !json_is_array(required))
        return error_set(c->error, "'required' must be a list of names");
    json_array_foreach((json_t *)required, i, value) {
        if (!json_is_string(value))
            return error_set(c->error, "'required' must be a list of names");
        if (add_name(c, o, json_string_value(value)) != STATUS_OK) return STATUS_FAILED;
        o->members[name_index(o, json_string_value(value))].required = true;
    }
    if (add_dependencies(c, o, json_object_get(s, "dependentRequired")) != STATUS_OK ||
        add_dependencies(c, o, json_object_get(s, "dependencies")) != STATUS_OK)
        return STATUS_FAILED;
    json_object_foreach(json_object_get(s, "patternProperties"), name, value) {
        if (json_object_get(o->patterns, name)) continue;
        json_int_t n = (json_int_t)json_object_size(o->patterns);
        if (json_object_set_new_nocheck(o->patterns, name, json_integer(n)) != 0)
            return schema_no_memory(c);
    }
    if (schema_size(c, s, "minProperties", &size, &given) != STATUS_OK) return STATUS_FAILED;
    if (given && size > o->min) o->min = size;
    if (schema_size(c, s, "maxProperties", &size, &given) != STATUS_OK) return STATUS_FAILED;
    if (given && size < o->max) o->max = size;
    return STATUS_OK;
}

/* Adds the strings of one alternative of a propertyNames to *context. */
static Status collect_names(SchemaCompiler *c, const SchemaAlternative *a, void *context) {
    Regex *all = context, own;
    SchemaAlternative strings = *a;
    strings.types &= TYPE_STRING;
    if (schema_scalars(c, &strings, &own) != STATUS_OK) return STATUS_FAILED;
    *all = regex_or2(c->regexes, *all, own);
    return STATUS_OK;
}

/* Sets o->names_regex to the names that propertyNames of all schemas allow: canonical strings, with
 * quotes. */
static Status read_names(SchemaCompiler *c, ObjectBuild *o) {
    o->names_regex = schema_quoted(c, c->canonical_string);
    for (size_t i = 0; i < o->a->schemas.n; i++) {
        const json_t *names = json_object_get(o->a->schemas.items[i], "propertyNames");
        SchemaList set = {.items = &names, .n = 1};
        Regex all = REGEX_NONE;
        if (!names) continue;
        if (schema_expand(c, &set, collect_names, &all) != STATUS_OK) return STATUS_FAILED;
        o->names_regex = regex_and2(c->regexes, o->names_regex, all);
    }
    return STATUS_OK;
}

static Status compile_patterns(SchemaCompiler *c, ObjectBuild *o) {
    const char *pattern;
    json_t *index;
    size_t n = json_object_size(o->patterns);
    o->regexes = calloc(n + 1, sizeof *o->regexes);
    o->loose = calloc(n + 1, sizeof *o->loose);
    o->included = calloc(n + 1, sizeof *o->included);
    if (!o->regexes || !o->loose || !o->included) return schema_no_memory(c);
    json_object_foreach(o->patterns, pattern, index) {
        json_int_t i = json_integer_value(index);
        if (schema_pattern(c, "patternProperties", pattern, strlen(pattern), &o->regexes[i]) !=
                STATUS_OK ||
            schema_loose_pattern(c, pattern, &o->loose[i]) != STATUS_OK)
            return STATUS_FAILED;
    }
    return STATUS_OK;
}

static Status name_matches(SchemaCompiler *c, void *context, const char *pattern, bool *is) {
    const ObjectBuild *o = context;
    Regex regex = o->regexes[json_integer_value(json_object_get(o->patterns, pattern))];
    *is = schema_string_matches(c, regex, o->name, strlen(o->name));
    return STATUS_OK;
}

static Status group_matches(SchemaCompiler *c, void *context, const char *pattern, bool *is) {
    const ObjectBuild *o = context;
    (void)c;
    *is = o->included[json_integer_value(json_object_get(o->patterns, pattern))];
    return STATUS_OK;
}

/* Makes the key and the value's node of each member that the schemas name, from all schemas that
 * apply to this key. A member that cannot be there keeps ACCEPTOR_NO_NODE. */
static Status named_members(SchemaCompiler *c, ObjectBuild *o, bool restricts_names) {
    const char *name;
    json_t *index;
    json_object_foreach(o->names, name, index) {
        ObjectMember *member = &o->members[json_integer_value(index)];
        SchemaList set = {0};
        bool possible = true;
        o->name = name;
        member->key = schema_quoted(c, schema_string(c, name, strlen(name)));
        if (schema_of_key(c, o->a, name, strlen(name), name_matches, o, &set, &possible) !=
            STATUS_OK) {
            free(set.items);
            return STATUS_FAILED;
        }
        if (restricts_names)
            possible &= regex_live(c->regexes, regex_and2(c->regexes, o->names_regex, member->key));
        if (!possible) {
            free(set.items);
        } else if (node_of(c, &set, &member->value) != STATUS_OK) {
            return STATUS_FAILED;
        }
    }
    return STATUS_OK;
}

/* Adds a member for the keys of `key` that match the patterns `included` before pattern i, and
 * those from i on in any combination. */
static Status add_groups(SchemaCompiler *c, ObjectBuild *o, Regex key, size_t i) {
    if (!regex_live(c->regexes, key)) return STATUS_OK;
    if (i < json_object_size(o->patterns)) {
        Regex own = schema_quoted(c, o->regexes[i]);
        o->included[i] = true;
        Status status = add_groups(c, o, regex_and2(c->regexes, key, own), i + 1);
        o->included[i] = false;
        if (status != STATUS_OK) return status;
        /* Names about which dialects disagree are in neither group. */
        own = schema_quoted(c, o->loose[i]);
        return add_groups(c, o, regex_and2(c->regexes, key, regex_not(c->regexes, own)), i + 1);
    }
    SchemaList set = {0};
    bool possible = true;
    AcceptorNode value = ACCEPTOR_NO_NODE;
    Status status = schema_of_key(c, o->a, NULL, 0, group_matches, o, &set, &possible);
    if (status != STATUS_OK || !possible) {
        free(set.items);
        return status;
    }
    if (node_of(c, &set, &value) != STATUS_OK) return STATUS_FAILED;
    if (o->n >= json_object_size(o->names) + MOST_GROUPS)
        return error_set(c->error, "'patternProperties' overlap in too many ways");
    if (!array_reserve(&o->members, &o->capacity, o->n + 1, sizeof *o->members))
        return schema_no_memory(c);
    o->members[o->n++] = (ObjectMember){.key = key, .value = value, .many = true};
    return STATUS_OK;
}

static Status other_members(SchemaCompiler *c, ObjectBuild *o) {
    size_t n = json_object_size(o->names), i = 0;
    Regex *keys = calloc(n + 1, sizeof *keys), key = o->names_regex;
    if (!keys) return schema_no_memory(c);
    for (; i < n; i++) keys[i] = o->members[i].key;
    if (n > 0) {
        Regex named = regex_or(c->regexes, keys, n);
        key = regex_and2(c->regexes, key, regex_not(c->regexes, named));
    }
    free(keys);
    return add_groups(c, o, key, 0);
}

/* Drops a minProperties that the required members fulfil, and refuses one beside maxProperties that
 * they do not. `minProperties` and `maxProperties` together would need a search for dependent
 * members whose numbers add up. What is required, with all that it calls for, mostly makes the
 * least number, which then says nothing; one member is found without a search. */
static Status check_counts(SchemaCompiler *c, ObjectBuild *o) {
    size_t n = 0;
    if (o->n_dependencies == 0 || o->max == ACCEPTOR_NO_LIMIT) return STATUS_OK;
    bool *has = calloc(o->n + 1, sizeof *has);
    if (!has) return schema_no_memory(c);
    for (size_t i = 0; i < o->n; i++) n += has[i] = o->members[i].required;
    bool counted = true;
    for (bool changed = true; changed && (counted = schema_count(c, o->n_dependencies));) {
        changed = false;
        for (size_t i = 0; i < o->n_dependencies; i++) {
            ObjectDependency d = o->dependencies[i];
            if (!has[d.if_member] || has[d.then_member]) continue;
            has[d.then_member] = changed = true;
            n++;
        }
    }
    free(has);
    if (!counted) return STATUS_FAILED;
    if (o->min <= n) o->min = 0;
    if (o->min <= 1) return STATUS_OK;
    return error_set(
        c->error,
        "'minProperties' of %u beside 'maxProperties' and 'dependentRequired' cannot be "
        "enforced: %zu members are required, and more than one would be free",
        o->min, n);
}

static Status build_object(SchemaCompiler *c, ObjectBuild *o, AcceptorNode *node) {
    bool restricts_names = false;
    for (size_t i = 0; i < o->a->schemas.n && c->in_order; i++)
        if (read_properties(c, o, o->a->schemas.items[i]) != STATUS_OK) return STATUS_FAILED;
    for (size_t i = 0; i < o->a->schemas.n; i++) {
        if (read_object(c, o, o->a->schemas.items[i]) != STATUS_OK) return STATUS_FAILED;
        restricts_names |= json_object_get(o->a->schemas.items[i], "propertyNames") != NULL;
    }
    if (check_counts(c, o) != STATUS_OK || read_names(c, o) != STATUS_OK ||
        compile_patterns(c, o) != STATUS_OK || named_members(c, o, restricts_names) != STATUS_OK ||
        other_members(c, o) != STATUS_OK)
        return STATUS_FAILED;
    *node = acceptor_object(c->acceptor, o->members, o->n, o->dependencies, o->n_dependencies,
                            o->min, o->max);
    return STATUS_OK;
}

static Status compile_object(SchemaCompiler *c, const SchemaAlternative *a, AcceptorNode *node) {
    ObjectBuild o = {
        .a = a, .names = json_object(), .patterns = json_object(), .max = ACCEPTOR_NO_LIMIT};
    Status status = o.names && o.patterns ? build_object(c, &o, node) : schema_no_memory(c);
    object_free(&o);
    return status;
}

/* ---- Arrays ---------------------------------------------------------------------------------- */

/* An array that is being compiled. */
typedef struct ArrayBuild {
    const SchemaAlternative *a;
    uint32_t min, max, min_hits, max_hits;
    size_t n_first;
    size_t hit; /* the schema whose `contains` is counted; SIZE_MAX: none */
    bool unique;
    AcceptorNode *first, *first_hits; /* [n_first + 1], the last for all others */
} ArrayBuild;

/* Reads `contains`, whose matches must be counted unless any or no number of them will do. */
static Status read_contains(SchemaCompiler *c, ArrayBuild *b, size_t i) {
    const json_t *s = b->a->schemas.items[i], *contains = json_object_get(s, "contains");
    uint32_t size, min = 1, max = ACCEPTOR_NO_LIMIT;
    bool given;
    if (!contains) return STATUS_OK;
    if (schema_size(c, s, "minContains", &size, &given) != STATUS_OK) return STATUS_FAILED;
    if (given) min = size;
    if (schema_size(c, s, "maxContains", &size, &given) != STATUS_OK) return STATUS_FAILED;
    if (given) max = size;
    if (min == 0 && max == ACCEPTOR_NO_LIMIT && !c->evaluates) return STATUS_OK;
    if (json_is_true(contains)) { /* each item is a match */
        if (min > b->min) b->min = min;
        if (max < b->max) b->max = max;
        if (!c->evaluates) return STATUS_OK;
    }
    if (b->hit != SIZE_MAX)
        return error_set(c->error, "several 'contains' of one array cannot be enforced");
    b->hit = i;
    b->min_hits = min;
    b->max_hits = max;
    return STATUS_OK;
}

static Status read_array(SchemaCompiler *c, ArrayBuild *b, size_t i) {
    const json_t *s = b->a->schemas.items[i];
    uint32_t size;
    bool given;
    const json_t *items = json_object_get(s, "items"), *first = json_object_get(s, "prefixItems");
    if (schema_size(c, s, "minItems", &size, &given) != STATUS_OK) return STATUS_FAILED;
    if (given && size > b->min) b->min = size;
    if (schema_size(c, s, "maxItems", &size, &given) != STATUS_OK) return STATUS_FAILED;
    if (given && size < b->max) b->max = size;
    if (first && !json_is_array(first))
        return error_set(c->error, "'prefixItems' must be a list of schemas");
    if (json_is_array(items)) first = items;
    if (json_array_size(first) > b->n_first) b->n_first = json_array_size(first);
    b->unique |= json_is_true(json_object_get(s, "uniqueItems"));
    return read_contains(c, b, i);
}

/* Adds what an item that is not a match must be valid by. */
static Status add_no_match(SchemaCompiler *c, const ArrayBuild *b, SchemaList *set) {
    if (b->hit == SIZE_MAX || b->max_hits == ACCEPTOR_NO_LIMIT) return STATUS_OK;
    json_t *contains = json_object_get(b->a->schemas.items[b->hit], "contains");
    const json_t *no = schema_own(c, json_pack("{s:O}", "not", contains));
    if (!no) return STATUS_FAILED;
    return schema_list_push(set, no) ? STATUS_OK : schema_no_memory(c);
}

/* The node of item i; `hit`: of one that matches `contains`. */
static Status item_node(SchemaCompiler *c, const ArrayBuild *b, size_t i, bool hit,
                        AcceptorNode *node) {
    SchemaList set = {0};
    bool possible = true;
    *node = ACCEPTOR_NO_NODE;
    Status status = schema_of_item(c, b->a, i, hit ? b->hit : SIZE_MAX, &set, &possible);
    if (status == STATUS_OK && !hit) status = add_no_match(c, b, &set);
    if (status == STATUS_OK && possible) return node_of(c, &set, node);
    free(set.items);
    return status;
}

static Status build_array(SchemaCompiler *c, ArrayBuild *b, AcceptorNode *node) {
    size_t n = b->n_first;
    b->first = calloc(n + 1, sizeof *b->first);
    b->first_hits = calloc(n + 1, sizeof *b->first_hits);
    if (!b->first || !b->first_hits) return schema_no_memory(c);
    for (size_t i = 0; i <= n; i++) {
        if (item_node(c, b, i, false, &b->first[i]) != STATUS_OK) return STATUS_FAILED;
        if (b->hit != SIZE_MAX && item_node(c, b, i, true, &b->first_hits[i]) != STATUS_OK)
            return STATUS_FAILED;
    }
    const ArrayHits hits = {b->first_hits, b->first_hits[n], b->min_hits, b->max_hits};
    *node = acceptor_array(c->acceptor, b->first, n, b->first[n], b->min, b->max,
                           b->hit != SIZE_MAX ? &hits : NULL);
    return STATUS_OK;
}

static Status compile_array(SchemaCompiler *c, const SchemaAlternative *a, AcceptorNode *node) {
    ArrayBuild b = {.a = a, .max = ACCEPTOR_NO_LIMIT, .hit = SIZE_MAX};
    for (size_t i = 0; i < a->schemas.n; i++)
        if (read_array(c, &b, i) != STATUS_OK) return STATUS_FAILED;
    if (b.unique && b.max > 1) return error_set(c->error, "'uniqueItems' cannot be enforced");
    Status status = build_array(c, &b, node);
    free(b.first);
    free(b.first_hits);
    return status;
}

/* ---- A set ----------------------------------------------------------------------------------- */

/* What the alternatives of a set have given so far. */
typedef struct SetBuild {
    Regex scalars;
    AcceptorNode *nodes;
    size_t n, capacity;
} SetBuild;

static Status add_node(SchemaCompiler *c, SetBuild *b, AcceptorNode node) {
    if (!array_reserve(&b->nodes, &b->capacity, b->n + 1, sizeof *b->nodes))
        return schema_no_memory(c);
    b->nodes[b->n++] = node;
    return STATUS_OK;
}

static Status compile_alternative(SchemaCompiler *c, const SchemaAlternative *a, void *context) {
    SetBuild *b = context;
    Regex scalars;
    AcceptorNode node = ACCEPTOR_NO_NODE;
    if (schema_scalars(c, a, &scalars) != STATUS_OK) return STATUS_FAILED;
    b->scalars = regex_or2(c->regexes, b->scalars, scalars);
    if (a->types & TYPE_OBJECT) {
        if (compile_object(c, a, &node) != STATUS_OK || add_node(c, b, node) != STATUS_OK)
            return STATUS_FAILED;
    }
    if (a->types & TYPE_ARRAY) {
        if (compile_array(c, a, &node) != STATUS_OK || add_node(c, b, node) != STATUS_OK)
            return STATUS_FAILED;
    }
    return STATUS_OK;
}

static Status compile_set(SchemaCompiler *c, size_t i) {
    SetBuild b = {.scalars = REGEX_NONE};
    SchemaList list = c->sets[i].list;
    AcceptorNode node = c->sets[i].node;
    Status status = schema_expand(c, &list, compile_alternative, &b);
    if (status == STATUS_OK) status = add_node(c, &b, acceptor_term(c->acceptor, b.scalars));
    if (status == STATUS_OK)
        acceptor_define(c->acceptor, node, acceptor_choice(c->acceptor, b.nodes, b.n));
    free(b.nodes);
    return status;
}

/* ---- A schema -------------------------------------------------------------------------------- */

/* Whether `$schema` names a draft in which nothing counts beside a $ref. */
static bool refs_stand_alone(const json_t *schema) {
    const char *draft = json_string_value(json_object_get(schema, "$schema"));
    return draft &&
           (strstr(draft, "draft-03") || strstr(draft, "draft-04") || strstr(draft, "draft-05") ||
            strstr(draft, "draft-06") || strstr(draft, "draft-07"));
}

static void compiler_free(SchemaCompiler *c) {
    for (size_t i = 0; i < c->n_sets; i++) free(c->sets[i].key.items), free(c->sets[i].list.items);
    free(c->sets);
    index_table_free(&c->set_table);
    free(c->places);
    index_table_free(&c->place_table);
    json_decref(c->negations);
    json_decref(c->made);
    json_decref(c->nothing);
    json_decref(c->by_uri);
    json_decref(c->bases);
}

static void schema_prepare(SchemaCompiler *c, Acceptor *acceptor) {
    RegexArena *r = c->regexes = acceptor_regexes(acceptor);
    c->acceptor = acceptor;
    c->in_order = acceptor_in_order(acceptor);
    c->made = json_array();
    c->nothing = json_object();
    c->negations = json_object();
    c->canonical_char = regex_any_char(r, WRITING_JSON);
    c->canonical_string = regex_repeat(r, c->canonical_char, 0, REGEX_MANY);
    c->any_json_char = regex_any_json_char(r);
}

Status schema_compile(Acceptor *acceptor, const json_t *schema, const JsonDigits *digits,
                      AcceptorNode *node, Error *error) {
    const char *draft = json_string_value(json_object_get(schema, "$schema"));
    SchemaCompiler c = {.error = error,
                        .root = schema,
                        .digits = digits,
                        .refs_alone = refs_stand_alone(schema),
                        .matches_alone = draft && strstr(draft, "2019-09")};
    SchemaList list = {0};
    schema_prepare(&c, acceptor);
    Status status = c.made && c.nothing && c.negations ? schema_index(&c) : schema_no_memory(&c);
    if (status == STATUS_OK && !schema_list_push(&list, schema)) status = schema_no_memory(&c);
    if (status == STATUS_OK) status = node_of(&c, &list, node);
    while (status == STATUS_OK && c.n_compiled < c.n_sets) {
        status = compile_set(&c, c.n_compiled++);
        if (c.regexes->failed)
            status = error_set(error, "the schema cannot be enforced: %s", c.regexes->failed);
    }
    compiler_free(&c);
    return status;
}

Status schema_any_object(Acceptor *acceptor, AcceptorNode *node, Error *error) {
    json_t *schema = json_pack("{s:s}", "type", "object");
    Status status = schema ? schema_compile(acceptor, schema, NULL, node, error)
                           : error_set(error, "no memory for a schema");
    json_decref(schema);
    return status;
}
