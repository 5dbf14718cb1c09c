#include "constraint/schema_refs.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/text.h"

/* ---- URIs (RFC 3986) ------------------------------------------------------------------------ */

static size_t scheme_length(const char *uri) {
    size_t n = strspn(uri, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-.");
    return n > 0 && uri[n] == ':' ? n + 1 : 0;
}

/* Removes "." and ".." from the path that begins at path[0]. */
static void remove_dots(char *path) {
    char *to = path, *from = path;
    while (*from) {
        char *end = from + 1;
        while (*end && *end != '/') end++;
        size_t n = (size_t)(end - from);
        if (n == 2 && memcmp(from, "/.", 2) == 0) {
            if (!*end) *to++ = '/';
        } else if (n == 3 && memcmp(from, "/..", 3) == 0) {
            while (to > path && *--to != '/') continue;
            if (!*end) *to++ = '/';
        } else {
            memmove(to, from, n);
            to += n;
        }
        from = end;
    }
    *to = '\0';
}

/* `reference` as seen from `base`, without its fragment; malloc'ed. */
static char *resolve_uri(const char *base, const char *reference) {
    size_t n = strcspn(reference, "#"), scheme = scheme_length(base), kept;
    char *out = malloc(strlen(base) + n + 2);
    if (!out) return NULL;
    const char *authority = base + scheme;
    size_t root = scheme;
    if (strncmp(authority, "//", 2) == 0) root += 2 + strcspn(authority + 2, "/");
    if (n == 0) {
        kept = strlen(base);
    } else if (scheme_length(reference) > 0) {
        kept = 0;
    } else if (strncmp(reference, "//", 2) == 0) {
        kept = scheme;
    } else if (reference[0] == '/') {
        kept = root;
    } else {
        const char *slash = strrchr(base + root, '/');
        kept = slash ? (size_t)(slash + 1 - base) : root;
    }
    memcpy(out, base, kept);
    if (n > 0 && kept == root && kept > scheme && reference[0] != '/') out[kept++] = '/';
    memcpy(out + kept, reference, n);
    out[kept + n] = '\0';
    if (n > 0 && kept >= root && out[root] == '/' && scheme_length(reference) == 0)
        remove_dots(out + root);
    return out;
}

/* ---- The index ------------------------------------------------------------------------------ */

static uint64_t hash_pointer(const void *pointer) {
    return (uint64_t)(uintptr_t)pointer * 0x9E3779B97F4A7C15u >> 32;
}

static uint64_t hash_place(const void *compiler, uint32_t i) {
    return hash_pointer(((const SchemaCompiler *)compiler)->places[i].schema);
}

static bool put_place(SchemaCompiler *c, SchemaPlace place) {
    if (!index_table_reserve(&c->place_table, hash_place, c) ||
        !array_reserve(&c->places, &c->places_capacity, c->n_places + 1, sizeof *c->places))
        return false;
    index_table_add(&c->place_table, hash_pointer(place.schema), c->n_places);
    c->places[c->n_places++] = place;
    return true;
}

/* The URI that references in `schema` start from; "" for schemas that the compiler wrote. */
static const char *base_of(const SchemaCompiler *c, const json_t *schema) {
    const IndexTable *table = &c->place_table;
    if (table->n == 0) return "";
    size_t at = index_table_first(table, hash_pointer(schema));
    for (; table->slots[at]; at = index_table_next(table, at)) {
        const SchemaPlace *p = &c->places[table->slots[at] - 1];
        if (p->schema == schema) return json_string_value(json_array_get(c->bases, p->base));
    }
    return "";
}

/* Notes that `uri`, or uri#anchor, is the schema at `place`; the first one wins. */
static bool note_uri(SchemaCompiler *c, const char *uri, const char *anchor, size_t place) {
    size_t n = strlen(uri), n_anchor = anchor ? strlen(anchor) : 0;
    char *key = malloc(n + n_anchor + 2);
    if (!key) return false;
    memcpy(key, uri, n + 1);
    if (anchor) {
        key[n] = '#';
        memcpy(key + n + 1, anchor, n_anchor + 1);
    }
    bool noted = json_object_get(c->by_uri, key) ||
                 json_object_set_new_nocheck(c->by_uri, key, json_integer((json_int_t)place)) == 0;
    free(key);
    return noted;
}

static Status index_value(SchemaCompiler *c, const json_t *value, size_t base, bool names);

/* Notes the URI and anchors of an object; *base becomes its own. */
static Status index_object(SchemaCompiler *c, const json_t *value, size_t *base) {
    c->evaluates |= json_object_get(value, "unevaluatedItems") ||
                    json_object_get(value, "unevaluatedProperties");
    const char *id = json_string_value(json_object_get(value, "$id"));
    if (!id) id = json_string_value(json_object_get(value, "id"));
    const json_t *reference = json_object_get(value, "$ref");
    if (id && reference && c->refs_alone) id = NULL;
    if (id && id[0] && id[0] != '#') {
        char *uri = resolve_uri(json_string_value(json_array_get(c->bases, *base)), id);
        bool noted = uri && json_array_append_new(c->bases, json_string_nocheck(uri)) == 0;
        *base = json_array_size(c->bases) - 1;
        noted = noted && note_uri(c, uri, NULL, c->n_places);
        free(uri);
        if (!noted) return schema_no_memory(c);
    }
    const char *uri = json_string_value(json_array_get(c->bases, *base));
    const char *anchors[] = {json_string_value(json_object_get(value, "$anchor")),
                             json_string_value(json_object_get(value, "$dynamicAnchor")),
                             id && id[0] == '#' ? id + 1 : NULL};
    for (int i = 0; i < 3; i++)
        if (anchors[i] && !note_uri(c, uri, anchors[i], c->n_places)) return schema_no_memory(c);
    return put_place(c, (SchemaPlace){value, *base}) ? STATUS_OK : schema_no_memory(c);
}

/* Indexes the $id, $anchor and so on of a schema's part, and of all parts in it. `names`: the keys
 * of this object are names, not keywords. */
static Status index_value(SchemaCompiler *c, const json_t *value, size_t base, bool names) {
    static const char *const maps[] = {"properties",  "patternProperties", "$defs",
                                       "definitions", "dependencies",      "dependentSchemas"};
    const char *key;
    json_t *child;
    size_t i;
    if (!schema_count(c, 1)) return STATUS_FAILED;
    json_array_foreach((json_t *)value, i, child) {
        if ((json_is_object(child) || json_is_array(child)) &&
            index_value(c, child, base, false) != STATUS_OK)
            return STATUS_FAILED;
    }
    if (!json_is_object(value)) return STATUS_OK;
    if (!names && index_object(c, value, &base) != STATUS_OK) return STATUS_FAILED;
    json_object_foreach((json_t *)value, key, child) {
        bool map = false;
        if (!json_is_object(child) && !json_is_array(child)) continue;
        if (!names && (strcmp(key, "enum") == 0 || strcmp(key, "const") == 0)) continue;
        for (size_t k = 0; k < sizeof maps / sizeof *maps && !names; k++)
            map |= strcmp(key, maps[k]) == 0;
        if (index_value(c, child, base, map) != STATUS_OK) return STATUS_FAILED;
    }
    return STATUS_OK;
}

Status schema_index(SchemaCompiler *c) {
    c->by_uri = json_object();
    c->bases = json_array();
    if (!c->by_uri || !c->bases || json_array_append_new(c->bases, json_string("")) != 0)
        return schema_no_memory(c);
    if (!json_is_object(c->root)) return STATUS_OK;
    if (!note_uri(c, "", NULL, 0)) return schema_no_memory(c);
    return index_value(c, c->root, 0, false);
}

/* ---- References ------------------------------------------------------------------------------ */

/* Undoes %XX in place. */
static void percent_decode(char *text) {
    char *to = text;
    for (; *text; text++) {
        unsigned value;
        if (text[0] == '%' && text[1] && text[2] && sscanf(text + 1, "%2x", &value) == 1) {
            *to++ = (char)value;
            text += 2;
        } else {
            *to++ = *text;
        }
    }
    *to = '\0';
}

/* The item that a JSON pointer's step names; NULL: none. An index has no leading zeros. */
static const json_t *item_at(const json_t *list, const char *step) {
    char *end;
    if (*step < '0' || *step > '9' || (step[0] == '0' && step[1])) return NULL;
    unsigned long at = strtoul(step, &end, 10);
    return *end ? NULL : json_array_get(list, at);
}

/* Follows a JSON pointer (RFC 6901); NULL: it leads nowhere. Overwrites the pointer. */
static const json_t *follow_pointer(const json_t *value, char *pointer) {
    while (value && *pointer == '/') {
        char *from = ++pointer, *to = pointer, last;
        for (; *from && *from != '/'; from++) {
            if (from[0] == '~' && (from[1] == '0' || from[1] == '1')) {
                *to++ = from[1] == '0' ? '~' : '/';
                from++;
            } else {
                *to++ = *from;
            }
        }
        last = *from;
        *to = '\0';
        value = json_is_array(value) ? item_at(value, pointer) : json_object_get(value, pointer);
        pointer = from;
        if (last) *pointer = last;
    }
    return *pointer ? NULL : value;
}

Status schema_resolve(SchemaCompiler *c, const json_t *schema, const char *keyword,
                      const char *reference, const json_t **target) {
    const char *fragment = strchr(reference, '#');
    char *uri = resolve_uri(base_of(c, schema), reference);
    char *own = strdup(fragment ? fragment + 1 : "");
    const json_t *place = NULL;
    *target = NULL;
    if (!uri || !own) {
        free(uri);
        free(own);
        return schema_no_memory(c);
    }
    percent_decode(own);
    if (own[0] != '\0' && own[0] != '/') {
        char *key = malloc(strlen(uri) + strlen(own) + 2);
        if (key) {
            strcat(strcat(strcpy(key, uri), "#"), own);
            place = json_object_get(c->by_uri, key);
        }
        free(key);
        if (place) *target = c->places[json_integer_value(place)].schema;
    } else {
        place = json_object_get(c->by_uri, uri);
        if (place) *target = follow_pointer(c->places[json_integer_value(place)].schema, own);
    }
    free(uri);
    free(own);
    if (*target && (json_is_object(*target) || json_is_boolean(*target))) return STATUS_OK;
    return error_set(c->error, "'%s': '%.200s' leads to no schema in this document", keyword,
                     reference);
}
