#include "constraint/acceptor_analysis.h"

#include <stdlib.h>

#include "constraint/acceptor_members.h"
#include "constraint/regex_derivative.h"
#include "constraint/regex_shortest.h"

enum { MOST_NAMES = 64 }; /* that are compared in an object */

bool acceptor_productive(const Acceptor *m, AcceptorNode node) {
    return node != ACCEPTOR_NO_NODE && m->nodes[node].productive;
}

/* Sets o->possible: the members whose key and value both match some text, less those that depend on
 * a member which is not possible. An object with one of the latter could never end. */
static void find_possible(Acceptor *m, const Object *o) {
    for (size_t i = 0; i < o->n; i++)
        o->possible[i] = acceptor_productive(m, o->members[i].value) &&
                         regex_live(&m->regexes, o->members[i].key);
    for (bool changed = true; changed && regex_count_work(&m->regexes, o->n_dependencies);) {
        changed = false;
        for (size_t i = 0; i < o->n_dependencies; i++) {
            ObjectDependency d = o->dependencies[i];
            if (!o->possible[d.if_member] || o->possible[d.then_member]) continue;
            o->possible[d.if_member] = false;
            changed = true;
        }
    }
}

/* Counts the different names that match an expression, as far as `most`. */
static uint32_t count_names(Acceptor *m, Regex names, uint32_t most) {
    RegexArena *r = &m->regexes;
    uint32_t n = 0;
    while (n < most && regex_live(r, names) && !acceptor_gave_up(m)) {
        TextBuffer name = {.limit = 1 << 16};
        if (!regex_shortest_text(r, names, REGEX_PLAIN, &name)) acceptor_fail(m, NO_MEMORY);
        Regex text = regex_text(r, name.bytes, name.length);
        names = regex_and2(r, names, regex_not(r, text));
        text_free(&name);
        n++;
    }
    return n;
}

/* Counts the different names of the members that stand for many, which `min` counts. */
static void find_names(Acceptor *m, Object *o) {
    uint32_t most = o->min < MOST_NAMES ? o->min : MOST_NAMES;
    for (size_t i = o->n_named; i < o->n && o->compares; i++)
        o->n_names += count_names(m, o->members[i].key, most - o->n_names);
    if (o->compares && o->n_names == MOST_NAMES && o->min > MOST_NAMES + o->n_named)
        acceptor_fail(m, "an object in it needs too many members with any names");
}

/* Whether an object with dependencies has room for what it must have (acceptor_members_room). */
static bool has_room(Acceptor *m, const Object *o) {
    bool has = o->min == 0 && acceptor_members_room(m, o, UINT32_MAX, 0, UINT32_MAX);
    for (size_t i = 0; i < o->n && !has; i++)
        has = o->possible[i] && acceptor_members_room(m, o, UINT32_MAX, 0, (uint32_t)i);
    return has;
}

/* Whether some text is such an object: every required member is possible, and the members that are
 * possible suffice for `min`. A member that stands for many adds as many as there are names for it:
 * without limit, where nothing compares names. */
static bool object_productive(Acceptor *m, const Object *o) {
    size_t n_single = 0, n_of_many = 0, n_required = 0;
    find_possible(m, o);
    for (size_t i = 0; i < o->n; i++) {
        const ObjectMember *member = &o->members[i];
        n_required += member->required;
        if (member->required && !o->possible[i]) return false;
        if (!o->possible[i]) continue;
        n_single += !member->many;
        if (member->many) n_of_many = o->compares ? o->n_names : UINT32_MAX;
    }
    return n_single + n_of_many >= o->min && o->min <= o->max && n_required <= o->max &&
           (o->n_dependencies == 0 || has_room(m, o));
}

/* The most items that an array can have. */
static uint32_t array_most(const Acceptor *m, const Array *a) {
    uint32_t i = 0;
    while (i < a->n && i < a->max && acceptor_productive(m, a->first[i])) i++;
    return i < a->n || !acceptor_productive(m, a->rest) ? i : a->max;
}

/* The range of further hits that further items of an array can have. */
typedef struct Range {
    uint64_t least, most;
} Range;

bool acceptor_array_can_end(const Acceptor *m, const Array *a, uint32_t count, uint32_t hits) {
    uint64_t needed = hits < a->min_hits ? a->min_hits - hits : 0, at = count;
    uint64_t left = a->max_hits != ACCEPTOR_NO_LIMIT ? a->max_hits - hits : UINT64_MAX;
    Range r = {0, 0};
    for (; at < a->n; at++) {
        bool miss = acceptor_productive(m, a->first[at]);
        bool hit = acceptor_productive(m, a->first_hits[at]);
        if (at >= a->min && r.least <= left && r.most >= needed) return true;
        if (at >= a->max || (!miss && !hit)) return false;
        r.least += !miss;
        r.most += hit;
    }
    bool miss = acceptor_productive(m, a->rest), hit = acceptor_productive(m, a->rest_hits);
    uint64_t more = at < a->min ? a->min - at : 0;
    if (r.most < needed && needed - r.most > more) more = needed - r.most;
    if (more > 0 && !miss && !hit) return false;
    if (at + more > a->max && a->max != ACCEPTOR_NO_LIMIT) return false;
    r.least += miss ? 0 : more;
    r.most += hit ? more : 0;
    return r.least <= left && r.most >= needed;
}

/* Whether the node matches any text, given what is known so far of the nodes that it refers to:
 * one step of the iteration to a fixed point. */
static bool node_productive(Acceptor *m, const Node *n) {
    switch ((NodeKind)n->kind) {
    case N_TERM:
        return regex_live(&m->regexes, n->a);
    case N_SEQUENCE:
        for (size_t i = 0; i < n->b; i++)
            if (!acceptor_productive(m, m->items[n->a + i])) return false;
        return true;
    case N_CHOICE:
        for (size_t i = 0; i < n->b; i++)
            if (acceptor_productive(m, m->items[n->a + i])) return true;
        return false;
    case N_REPEAT:
        return n->b <= n->c && (n->b == 0 || acceptor_productive(m, n->a));
    case N_OBJECT:
        return object_productive(m, &m->objects[n->a]);
    case N_ARRAY: {
        const Array *a = &m->arrays[n->a];
        if (a->min > a->max || a->min_hits > a->max_hits) return false;
        return a->first_hits ? acceptor_array_can_end(m, a, 0, 0) : array_most(m, a) >= a->min;
    }
    }
    return false;
}

/* Whether the node matches the empty text, given what is known so far of the nodes that it refers
 * to: one step of the iteration to a fixed point. */
static bool node_nullable(const Acceptor *m, const Node *n) {
    bool all = true, some = false;
    switch ((NodeKind)n->kind) {
    case N_TERM:
        return regex_nullable(&m->regexes, n->a);
    case N_SEQUENCE:
    case N_CHOICE:
        for (size_t i = 0; i < n->b; i++) {
            AcceptorNode item = m->items[n->a + i];
            bool nullable = item != ACCEPTOR_NO_NODE && m->nodes[item].nullable;
            all &= nullable;
            some |= nullable;
        }
        return n->kind == N_SEQUENCE ? all : some;
    case N_REPEAT:
        return n->b == 0 || m->nodes[n->a].nullable;
    default:
        return false;
    }
}

Status acceptor_analyse(Acceptor *m, Error *error) {
    bool changed = true;
    /* After a failed allocation a node may lack its lists. */
    for (size_t i = 0; i < m->n_objects && !acceptor_gave_up(m); i++) find_names(m, &m->objects[i]);
    while (changed && !acceptor_gave_up(m)) {
        changed = false;
        for (size_t i = m->n_nodes; i-- > 0 && !acceptor_gave_up(m);) {
            Node *n = &m->nodes[i];
            size_t size = acceptor_list_size(m, n);
            m->regexes.work += n->kind == N_OBJECT ? size : 1 + size / 8;
            if (!n->productive && node_productive(m, n)) changed = n->productive = true;
            if (!n->nullable && node_nullable(m, n)) changed = n->nullable = true;
        }
        if (m->regexes.work > m->limits.build_work) acceptor_fail(m, "it takes too many steps");
    }
    for (size_t i = 0; i < m->n_objects && !acceptor_gave_up(m); i++)
        find_possible(m, &m->objects[i]);
    for (size_t i = 0; i < m->n_arrays && !acceptor_gave_up(m); i++)
        m->arrays[i].most = array_most(m, &m->arrays[i]);
    return acceptor_gave_up(m) ? error_set(error, "the shape cannot be enforced: %s", m->failed)
                               : STATUS_OK;
}

/* A node on the path of acceptor_left_recursive, and which of its beginnings comes next. */
typedef struct Visit {
    uint32_t node, at;
} Visit;

/* The i-th node that may begin where node n begins, or ACCEPTOR_NO_NODE; *pushes: something of n
 * follows it. */
static AcceptorNode beginning(const Acceptor *m, const Node *n, size_t i, bool *pushes) {
    *pushes = false;
    if (n->kind == N_CHOICE) return i < n->b ? m->items[n->a + i] : ACCEPTOR_NO_NODE;
    if (n->kind == N_REPEAT) {
        *pushes = n->c > 1;
        return i == 0 ? n->a : ACCEPTOR_NO_NODE;
    }
    if (n->kind != N_SEQUENCE || i >= n->b) return ACCEPTOR_NO_NODE;
    if (i > 0 && !m->nodes[m->items[n->a + i - 1]].nullable) return ACCEPTOR_NO_NODE;
    *pushes = i + 1 < n->b;
    return m->items[n->a + i];
}

/* A grammar is left-recursive when a cycle of nodes that begin with each other has an edge that
 * pushes: both of its ends are then in one strongly connected component. The components are
 * Tarjan's, found without recursion: `order` numbers nodes as they are met, `low` is the least
 * number that a node reaches, `component` is 0 while a node is still open. */
bool acceptor_left_recursive(Acceptor *m) {
    size_t n = m->n_nodes, depth = 0, n_open = 0, counter = 0;
    uint32_t *order = calloc(n + 1, sizeof *order), *low = calloc(n + 1, sizeof *low);
    uint32_t *open = calloc(n + 1, sizeof *open), *component = calloc(n + 1, sizeof *component);
    Visit *stack = calloc(n + 1, sizeof *stack);
    bool found = false, pushes;
    if (!order || !low || !open || !component || !stack) acceptor_fail(m, NO_MEMORY);
    for (size_t root = 0; root < n && !m->failed; root++) {
        if (order[root]) continue;
        stack[depth++] = (Visit){(uint32_t)root, 0};
        while (depth > 0) {
            Visit *v = &stack[depth - 1];
            uint32_t node = v->node;
            if (v->at == 0) {
                order[node] = low[node] = (uint32_t)++counter;
                open[n_open++] = node;
            }
            AcceptorNode next = beginning(m, &m->nodes[node], v->at++, &pushes);
            if (next != ACCEPTOR_NO_NODE) {
                if (!order[next])
                    stack[depth++] = (Visit){next, 0};
                else if (!component[next] && order[next] < low[node])
                    low[node] = order[next];
                continue;
            }
            if (low[node] == order[node]) {
                do {
                    component[open[--n_open]] = node + 1;
                } while (open[n_open] != node);
            }
            depth--;
            if (depth > 0 && low[node] < low[stack[depth - 1].node])
                low[stack[depth - 1].node] = low[node];
        }
    }
    for (size_t i = 0; i < n && !m->failed; i++)
        for (size_t k = 0;; k++) {
            AcceptorNode next = beginning(m, &m->nodes[i], k, &pushes);
            if (next == ACCEPTOR_NO_NODE) break;
            found |= pushes && component[next] == component[i] && component[i] != 0;
        }
    free(order);
    free(low);
    free(open);
    free(component);
    free(stack);
    return found;
}
