#include "constraint/acceptor_shortest.h"

#include <stdlib.h>

#include "constraint/acceptor_analysis.h"
#include "constraint/acceptor_members.h"
#include "constraint/acceptor_nodes_internal.h"
#include "constraint/regex_shortest.h"

/* Costs are lengths in bytes. A cost always belongs to a text that exists, so the remaining cost
 * falls with each lexeme when the cheapest choice is taken, and the text must end. */
enum { FAR = 1 << 28, UNKNOWN = FAR + 1 };

static uint32_t add_costs(uint32_t a, uint32_t b) {
    return a + b < FAR ? a + b : FAR;
}

static uint32_t times_cost(uint32_t n, uint32_t cost) {
    uint64_t product = (uint64_t)n * cost;
    return product < FAR ? (uint32_t)product : FAR;
}

static uint32_t node_cost(const Acceptor *m, AcceptorNode node) {
    return node == ACCEPTOR_NO_NODE ? FAR : m->costs[node];
}

/* The costs of the items from `from` to `to` - 1 whose sums begin at `sums`. */
static uint32_t cost_between(const Acceptor *m, size_t sums, size_t from, size_t to) {
    uint64_t sum = m->cost_sums[sums + to] - m->cost_sums[sums + from];
    return sum < FAR ? (uint32_t)sum : FAR;
}

static uint32_t regex_cost(Acceptor *m, Regex regex) {
    uint32_t length = regex_shortest(&m->regexes, regex);
    return length < FAR ? length : FAR;
}

/* ---- Objects --------------------------------------------------------------------------------- */

/* A member with a comma before it. */
static uint32_t member_cost(Acceptor *m, const Object *o, size_t i) {
    if (!o->possible[i]) return FAR;
    uint32_t key = regex_cost(m, o->lexemes[i]);
    return add_costs(add_costs(key, 1), node_cost(m, o->members[i].value));
}

/* Adds the members that those in `has` call for, and returns how many it added. */
static uint32_t add_dependent(Acceptor *m, const Object *o, bool *has) {
    uint32_t n = 0;
    for (bool changed = true; changed;) {
        changed = false;
        regex_count_work(&m->regexes, o->n_dependencies / 8);
        for (size_t i = 0; i < o->n_dependencies; i++) {
            ObjectDependency d = o->dependencies[i];
            if (!has[d.if_member] || has[d.then_member]) continue;
            has[d.then_member] = changed = true;
            n++;
        }
    }
    return n;
}

typedef struct Choice {
    uint32_t cost, member;
} Choice;

static int compare_choices(const void *a, const void *b) {
    const Choice *x = a, *y = b;
    if (x->cost != y->cost) return x->cost < y->cost ? -1 : 1;
    return x->member < y->member ? -1 : x->member > y->member;
}

/* Marks the cheapest members in `has` until there are `min`, for an object with `set` and `extra`;
 * returns the cost of those that stand for many, of which there may be more than one. */
static uint32_t shortest_fill(Acceptor *m, const Object *o, uint32_t set, uint32_t extra, bool *has,
                              uint32_t count) {
    uint32_t many = FAR;
    size_t n = 0;
    Choice *choices = malloc((o->n + 1) * sizeof *choices);
    if (!choices) return acceptor_fail(m, NO_MEMORY), FAR;
    for (size_t i = 0; i < o->n; i++) {
        bool open =
            (i >= o->n_named || (!has[i] && acceptor_members_fit(m, o, set, extra, (uint32_t)i))) &&
            acceptor_members_room(m, o, set, count, (uint32_t)i);
        uint32_t cost = open ? member_cost(m, o, i) : FAR;
        if (i >= o->n_named && cost < many) many = cost;
        if (i < o->n_named && cost < FAR) choices[n++] = (Choice){cost, (uint32_t)i};
    }
    qsort(choices, n, sizeof *choices, compare_choices);
    for (size_t i = 0; i < n && count < o->min && choices[i].cost <= many; i++) {
        if (has[choices[i].member]) continue;
        has[choices[i].member] = true;
        count += 1 + add_dependent(m, o, has);
    }
    free(choices);
    regex_count_work(&m->regexes, o->n);
    return count < o->min ? times_cost(o->min - count, many) : 0;
}

/* The bytes of the shortest rest of an object that has the members `set`, `count` in all, and now
 * gets member `extra` (UINT32_MAX: none): required and dependent members, as many as `min` asks
 * for, and the end. */
static uint32_t rest_cost(Acceptor *m, const Object *o, uint32_t set, uint32_t count,
                          uint32_t extra) {
    bool *has = calloc(o->n + 1, sizeof *has);
    uint32_t sum = 1;
    if (!has) return acceptor_fail(m, NO_MEMORY), FAR;
    for (size_t i = 0; i < o->n_named; i++) {
        has[i] = acceptor_members_has(m, o, set, i) || i == extra;
        if (has[i] || !o->members[i].required) continue;
        has[i] = true;
        count++;
    }
    if (extra != UINT32_MAX) count++;
    count += add_dependent(m, o, has);
    if (count < o->min) sum = add_costs(sum, shortest_fill(m, o, set, extra, has, count));
    for (size_t i = 0; i < o->n_named; i++)
        if (has[i] && i != extra && !acceptor_members_has(m, o, set, i))
            sum = add_costs(sum, member_cost(m, o, i));
    free(has);
    regex_count_work(&m->regexes, o->n / 4 + 1);
    return sum;
}

/* ---- Nodes ----------------------------------------------------------------------------------- */

static uint32_t item_cost(const Acceptor *m, const Array *a, uint32_t i, bool hit) {
    if (hit) return node_cost(m, i < a->n ? a->first_hits[i] : a->rest_hits);
    return node_cost(m, i < a->n ? a->first[i] : a->rest);
}

/* items_cost for an array that must have a number of items that match `contains`: these come as
 * early as possible. */
static uint32_t hits_cost(Acceptor *m, const Array *a, uint32_t from, uint32_t hits) {
    uint32_t sum = 1, at = from;
    for (; at < a->n && (at < a->min || hits < a->min_hits); at++) {
        bool hit = hits < a->min_hits && acceptor_productive(m, a->first_hits[at]) &&
                   acceptor_array_can_end(m, a, at + 1, hits + 1);
        hit |= !acceptor_productive(m, a->first[at]) || !acceptor_array_can_end(m, a, at + 1, hits);
        sum = add_costs(sum, add_costs(item_cost(m, a, at, hit), 1));
        hits += hit;
        regex_count_work(&m->regexes, a->n / 4 + 1);
    }
    uint32_t needed = hits < a->min_hits ? a->min_hits - hits : 0;
    uint32_t more = at < a->min ? a->min - at : 0, others = more > needed ? more - needed : 0;
    sum = add_costs(sum, times_cost(needed, add_costs(node_cost(m, a->rest_hits), 1)));
    uint32_t other = node_cost(m, acceptor_productive(m, a->rest) ? a->rest : a->rest_hits);
    return add_costs(sum, times_cost(others, add_costs(other, 1)));
}

/* The bytes of the items that an array must still have from item `from` on, with commas, and of its
 * closing bracket. */
static uint32_t items_cost(Acceptor *m, const Array *a, uint32_t from, uint32_t hits) {
    uint32_t sum = 1;
    if (a->first_hits) return hits_cost(m, a, from, hits);
    uint32_t end = a->min < a->n ? a->min : (uint32_t)a->n; /* of the first items */
    if (m->cost_sums && from < end)
        sum = add_costs(sum + (end - from), cost_between(m, a->sums, from, end));
    for (uint32_t i = from; i < end && !m->cost_sums; i++)
        sum = add_costs(sum, add_costs(node_cost(m, a->first[i]), 1));
    uint32_t first = from > a->n ? from : (uint32_t)a->n;
    if (first < a->min)
        sum = add_costs(sum, times_cost(a->min - first, add_costs(node_cost(m, a->rest), 1)));
    return sum;
}

/* Returns the bytes of the node's shortest text, computed from the costs that its parts have so
 * far; FAR where no text is known yet. */
static uint32_t new_node_cost(Acceptor *m, const Node *n) {
    uint32_t sum = 0, least = FAR;
    switch ((NodeKind)n->kind) {
    case N_TERM:
        return regex_cost(m, n->a);
    case N_SEQUENCE:
        for (size_t i = 0; i < n->b; i++) sum = add_costs(sum, node_cost(m, m->items[n->a + i]));
        return sum;
    case N_CHOICE:
        for (size_t i = 0; i < n->b; i++) {
            uint32_t cost = node_cost(m, m->items[n->a + i]);
            if (cost < least) least = cost;
        }
        return least;
    case N_REPEAT:
        return n->b == 0 ? 0 : times_cost(n->b, node_cost(m, n->a));
    case N_OBJECT: /* the first member has no comma before it, but the opening bracket */
        sum = rest_cost(m, &m->objects[n->a], UINT32_MAX, 0, UINT32_MAX);
        return sum == 1 ? 2 : sum;
    case N_ARRAY:
        sum = items_cost(m, &m->arrays[n->a], 0, 0);
        return sum == 1 ? 2 : sum;
    }
    return FAR;
}

/* Computes prefix sums of the costs of each list, which give the cost of any part of it. */
static bool sum_costs(Acceptor *m) {
    size_t n = m->n_items + 1;
    for (size_t i = 0; i < m->n_arrays; i++) n += m->arrays[i].n + 1;
    uint64_t *sums = calloc(n, sizeof *sums);
    if (!sums) return acceptor_fail(m, NO_MEMORY);
    for (size_t i = 0; i < m->n_items; i++) sums[i + 1] = sums[i] + node_cost(m, m->items[i]);
    size_t at = m->n_items + 1;
    for (size_t i = 0; i < m->n_arrays; i++) {
        Array *a = &m->arrays[i];
        a->sums = at;
        for (size_t k = 0; k < a->n; k++)
            sums[at + k + 1] = sums[at + k] + node_cost(m, a->first[k]);
        at += a->n + 1;
    }
    m->cost_sums = sums;
    return true;
}

/* The bytes of the shortest text of each node. */
static bool find_costs(Acceptor *m) {
    if (m->costs) return true;
    m->costs = malloc((m->n_nodes + 1) * sizeof *m->costs);
    if (!m->costs) return acceptor_fail(m, NO_MEMORY);
    for (size_t i = 0; i < m->n_nodes; i++) m->costs[i] = FAR;
    for (bool changed = true; changed && !acceptor_gave_up(m);) {
        changed = false;
        for (size_t i = m->n_nodes; i-- > 0 && regex_count_work(&m->regexes, 1);) {
            if (!m->nodes[i].productive) continue;
            regex_count_work(&m->regexes, acceptor_list_size(m, &m->nodes[i]) / 8);
            uint32_t cost = new_node_cost(m, &m->nodes[i]);
            if (cost >= m->costs[i]) continue;
            m->costs[i] = cost;
            changed = true;
        }
    }
    if (!acceptor_gave_up(m) && sum_costs(m)) return true;
    free(m->costs);
    m->costs = NULL;
    return false;
}

/* ---- Frames ---------------------------------------------------------------------------------- */

/* The bytes that must follow inside the frame's node once it is gone on with after `tag`. */
static uint32_t own_cost(Acceptor *m, const Frame *f, uint32_t tag) {
    if (!is_node(f->node)) return 0;
    const Node *n = &m->nodes[f->node];
    switch ((NodeKind)n->kind) {
    case N_SEQUENCE:
        return cost_between(m, 0, n->a + f->a, n->a + n->b);
    case N_REPEAT:
        return f->a < n->b ? times_cost(n->b - f->a, node_cost(m, n->a)) : 0;
    case N_OBJECT: {
        const Object *o = &m->objects[n->a];
        if (f->b & 1) return rest_cost(m, o, f->a, f->b >> 1, UINT32_MAX);
        if (tag >= o->n) return 0;
        return add_costs(node_cost(m, o->members[tag].value),
                         rest_cost(m, o, f->a, f->b >> 1, tag));
    }
    case N_ARRAY: {
        const Array *a = &m->arrays[n->a];
        uint32_t count = f->a >> 1, hits = f->b, least = FAR;
        if (f->a & 1) return items_cost(m, a, count, hits);
        if (tag == TAG_CLOSE) return 0;
        for (int hit = 0; hit <= (a->first_hits ? 1 : 0); hit++) {
            if (a->first_hits && (hits + (uint32_t)hit > a->max_hits ||
                                  !acceptor_array_can_end(m, a, count + 1, hits + (uint32_t)hit)))
                continue;
            uint32_t cost = add_costs(item_cost(m, a, count, hit),
                                      items_cost(m, a, count + 1, hits + (uint32_t)hit));
            if (cost < least) least = cost;
        }
        return least;
    }
    default:
        return 0;
    }
}

/* The bytes to the end of the text once the value that the frame waits for has ended. */
static uint32_t frame_cost(Acceptor *m, uint32_t frame) {
    if (!RESERVE(m, frame_costs, n_frames, 0)) return FAR;
    for (; m->n_frame_costs < m->n_frames; m->n_frame_costs++)
        m->frame_costs[m->n_frame_costs] = m->n_frame_costs == 0 ? 0 : UNKNOWN;
    /* Down to a frame whose cost is known, and back. */
    uint32_t *path = NULL, at = frame;
    size_t depth = 0, capacity = 0;
    for (; m->frame_costs[at] == UNKNOWN; at = m->frames[at].parent) {
        if (!array_reserve(&path, &capacity, depth + 1, sizeof *path)) {
            acceptor_fail(m, NO_MEMORY);
            break;
        }
        path[depth++] = at;
    }
    while (depth > 0 && !m->failed) {
        const Frame f = m->frames[path[--depth]];
        m->frame_costs[path[depth]] =
            add_costs(own_cost(m, &f, REGEX_PLAIN), m->frame_costs[f.parent]);
    }
    free(path);
    return m->failed ? FAR : m->frame_costs[frame];
}

/* ---- The shortest completion ----------------------------------------------------------------- */

/* What an object without dependencies still needs: asked once for all its members. */
typedef struct Needs {
    uint32_t frame;
    bool enough;   /* what it needs makes `min` members */
    uint32_t rest; /* rest_cost */
} Needs;

/* The cheapest lexemes to go on with. */
typedef struct Way {
    Needs needs;
    uint32_t cost;
    TextBuffer text; /* the first one in the order of texts */
    bool found;
} Way;

static void find_needs(Acceptor *m, uint32_t frame, const Object *o, Needs *needs) {
    const Frame f = m->frames[frame];
    uint32_t count = f.b >> 1;
    *needs = (Needs){.frame = frame};
    for (size_t i = 0; i < o->n_named; i++) count += acceptor_members_needed(m, o, f.a, i);
    needs->enough = count >= o->min;
    if (needs->enough) needs->rest = rest_cost(m, o, f.a, f.b >> 1, UINT32_MAX);
}

/* own_cost of the frame that a head's lexeme ends in. */
static uint32_t lexeme_cost(Acceptor *m, Way *way, uint32_t frame, uint32_t tag) {
    const Frame f = m->frames[frame];
    bool object = is_node(f.node) && m->nodes[f.node].kind == N_OBJECT && !(f.b & 1);
    const Object *o = object ? &m->objects[m->nodes[f.node].a] : NULL;
    if (!o || o->n_dependencies > 0 || tag >= o->n) return own_cost(m, &f, tag);
    if (way->needs.frame != frame) find_needs(m, frame, o, &way->needs);
    if (!way->needs.enough) return own_cost(m, &f, tag);
    uint32_t rest = way->needs.rest;
    if (rest < FAR && acceptor_members_needed(m, o, f.a, tag)) rest -= member_cost(m, o, tag);
    return add_costs(node_cost(m, o->members[tag].value), rest);
}

/* The cost of going on with a head's lexeme that ends so. */
static uint32_t end_cost(Acceptor *m, Way *way, Head head, RegexEnd end) {
    if (end.length == 0 || end.length >= FAR) return FAR; /* its continuation is a head, too */
    if (head.frame == 0) return end.length;
    uint32_t after = lexeme_cost(m, way, head.frame, end.tag);
    return add_costs(end.length, add_costs(after, frame_cost(m, m->frames[head.frame].parent)));
}

/* Takes the head's cheapest lexeme, of several the one with the lowest tag, if the way has none
 * that is cheaper, or as cheap and comes first in the order of texts. */
static bool consider(Acceptor *m, Way *way, Head head, const RegexEnds *ends, size_t limit) {
    uint32_t cost = FAR, tag = 0;
    for (size_t i = 0; i < ends->n && !acceptor_gave_up(m); i++) {
        uint32_t own = end_cost(m, way, head, ends->items[i]);
        if (own > cost || (own == cost && ends->items[i].tag >= tag)) continue;
        cost = own;
        tag = ends->items[i].tag;
    }
    if (cost >= FAR || cost > way->cost) return !m->failed;
    TextBuffer text = {.limit = limit};
    bool found = regex_shortest_text(&m->regexes, head.regex, tag, &text);
    if (found && (cost < way->cost || regex_compare_texts(&text, &way->text) < 0)) {
        TextBuffer other = way->text;
        way->text = text;
        way->cost = cost;
        way->found = true;
        text = other;
    }
    text_free(&text);
    return found;
}

static bool find_way(Acceptor *m, AcceptorState state, Way *way, size_t limit) {
    const State s = m->states[state];
    RegexEnds ends = {0};
    bool fits = true;
    for (size_t i = 0; i < s.n && fits; i++) {
        Head head = m->heads[s.heads + i];
        ends.n = 0;
        fits = regex_ends(&m->regexes, head.regex, &ends) && consider(m, way, head, &ends, limit);
    }
    free(ends.items);
    return fits && way->found;
}

bool acceptor_shortest(Acceptor *m, AcceptorState state, TextBuffer *out) {
    /* A way is found once for a text: it may take as long as building the shape. */
    if (m->regexes.most_work < m->limits.build_work) m->regexes.most_work = m->limits.build_work;
    bool found = find_costs(m);
    while (found && !acceptor_accepts(m, state)) {
        Way way = {.cost = FAR};
        found = find_way(m, state, &way, out->limit);
        if (way.cost == FAR && !acceptor_gave_up(m))
            acceptor_fail(m, "the shortest way to its end is too long");
        for (size_t i = 0; i < way.text.length && found && state != ACCEPTOR_DEAD; i++)
            state = acceptor_step(m, state, (unsigned char)way.text.bytes[i]);
        if (found) regex_put_text(&m->regexes, out, way.text.bytes, way.text.length);
        text_free(&way.text);
        found = found && state != ACCEPTOR_DEAD && !out->failed && !acceptor_gave_up(m);
    }
    acceptor_gave_up(m); /* so that acceptor_failed says why */
    return found;
}
