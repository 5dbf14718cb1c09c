#include "constraint/acceptor_shortest.h"

#include <stdlib.h>

#include "constraint/acceptor_nodes_internal.h"
#include "constraint/regex_shortest.h"

enum { FAR = 1 << 28, MOST_SIDEWAYS = 2000 };

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

static uint32_t regex_cost(Acceptor *m, Regex regex) {
    uint32_t length = regex_shortest(&m->regexes, regex);
    return length < FAR ? length : FAR;
}

/* Bytes of the members that an object still needs, each with a comma; *key is the shortest of their
 * keys with its comma. */
static uint32_t members_cost(Acceptor *m, const Object *o, uint32_t set, uint32_t count,
                             uint32_t *key) {
    uint32_t sum = 0, cheapest = FAR, cheapest_key = FAR;
    *key = FAR;
    for (size_t i = 0; i < o->n; i++) {
        if (i < o->n_named && acceptor_set_has(m, set, i)) continue;
        bool needed = acceptor_member_needed(m, o, set, i);
        if (!needed && count >= o->min) continue;
        uint32_t own_key = add_costs(regex_cost(m, o->lexemes[i]), 1);
        uint32_t cost = add_costs(own_key, node_cost(m, o->members[i].value));
        if (needed) {
            sum = add_costs(sum, cost);
            count++;
            if (own_key < *key) *key = own_key;
        } else if (cost < cheapest) {
            cheapest = cost;
            cheapest_key = own_key;
        }
    }
    if (count >= o->min) return sum;
    if (cheapest_key < *key) *key = cheapest_key;
    return add_costs(sum, times_cost(o->min - count, cheapest));
}

static uint32_t items_cost(const Acceptor *m, const Array *a, uint32_t from) {
    uint32_t sum = 0;
    for (uint32_t i = from; i < a->min && i < a->n; i++)
        sum = add_costs(sum, add_costs(node_cost(m, a->first[i]), 1));
    uint32_t first = from > a->n ? from : (uint32_t)a->n;
    if (first < a->min)
        sum = add_costs(sum, times_cost(a->min - first, add_costs(node_cost(m, a->rest), 1)));
    return sum;
}

static uint32_t new_node_cost(Acceptor *m, const Node *n) {
    uint32_t sum = 0, least = FAR, key;
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
    case N_OBJECT:
        return add_costs(2, members_cost(m, &m->objects[n->a], UINT32_MAX, 0, &key));
    case N_ARRAY:
        return add_costs(2, items_cost(m, &m->arrays[n->a], 0));
    }
    return FAR;
}

/* The bytes of the shortest text of each node, about. */
static bool find_costs(Acceptor *m) {
    if (m->costs) return true;
    m->costs = malloc((m->n_nodes + 1) * sizeof *m->costs);
    if (!m->costs) return false;
    for (size_t i = 0; i < m->n_nodes; i++) m->costs[i] = FAR;
    for (bool changed = true; changed && !acceptor_gave_up(m);) {
        changed = false;
        for (size_t i = m->n_nodes; i-- > 0;) {
            if (!m->nodes[i].productive) continue;
            uint32_t cost = new_node_cost(m, &m->nodes[i]);
            if (cost >= m->costs[i]) continue;
            m->costs[i] = cost;
            changed = true;
        }
    }
    return !acceptor_gave_up(m);
}

/* The bytes that must follow once the frame is gone on with, about. */
static uint32_t own_cost(Acceptor *m, const Frame *f) {
    const Node *n = &m->nodes[f->node];
    uint32_t sum = 0, key;
    switch ((NodeKind)n->kind) {
    case N_SEQUENCE:
        for (size_t i = f->a; i < n->b; i++) sum = add_costs(sum, node_cost(m, m->items[n->a + i]));
        return sum;
    case N_REPEAT:
        return f->a < n->b ? times_cost(n->b - f->a, node_cost(m, n->a)) : 0;
    case N_OBJECT:
        /* Between members, the head has a key and its comma, or the end. */
        sum = members_cost(m, &m->objects[n->a], f->a, f->b >> 1, &key);
        if (f->b & 1) return add_costs(sum, 1);
        return sum > key ? sum + 1 - key : 0;
    case N_ARRAY:
        return add_costs(f->a & 1, items_cost(m, &m->arrays[n->a], f->a >> 1));
    default:
        return 0;
    }
}

/* frame_costs holds the costs of the frames before n; a frame's parent is older than the frame. */
static bool find_frame_costs(Acceptor *m, size_t n) {
    if (!array_reserve(&m->frame_costs, &m->frame_costs_capacity, n, sizeof *m->frame_costs))
        return false;
    for (; m->n_frame_costs < n; m->n_frame_costs++) {
        const Frame f = m->frames[m->n_frame_costs];
        m->frame_costs[m->n_frame_costs] =
            m->n_frame_costs == 0 ? 0 : add_costs(own_cost(m, &f), m->frame_costs[f.parent]);
    }
    return !acceptor_gave_up(m);
}

static uint32_t state_cost(Acceptor *m, AcceptorState state) {
    State s = m->states[state];
    uint32_t least = FAR;
    if (s.accepts) return 0;
    if (!find_frame_costs(m, m->n_frames)) return FAR;
    for (size_t i = 0; i < s.n; i++) {
        Head h = m->heads[s.heads + i];
        if (regex_nullable(&m->regexes, h.regex)) continue; /* what follows it is a head, too */
        uint32_t cost = add_costs(regex_cost(m, h.regex), m->frame_costs[h.frame]);
        if (cost < least) least = cost;
    }
    return least;
}

bool acceptor_shortest(Acceptor *m, AcceptorState state, char *out, size_t most, size_t *n) {
    uint32_t best = UINT32_MAX;
    size_t sideways = 0;
    if (!find_costs(m)) return false;
    while (!acceptor_accepts(m, state)) {
        uint32_t least = UINT32_MAX;
        unsigned chosen = 0;
        for (size_t c = 0; c < m->n_classes; c++) {
            AcceptorState next = acceptor_step(m, state, m->regexes.byte_of[c]);
            uint32_t cost = next == ACCEPTOR_DEAD ? UINT32_MAX : state_cost(m, next);
            unsigned byte = m->regexes.byte_of[c];
            if (cost > least || cost == UINT32_MAX || (cost == least && byte > chosen)) continue;
            least = cost;
            chosen = byte;
        }
        sideways = least < best ? 0 : sideways + 1;
        if (least < best) best = least;
        if (least == UINT32_MAX || *n == most || sideways > MOST_SIDEWAYS || acceptor_gave_up(m))
            return false;
        out[(*n)++] = (char)chosen;
        state = acceptor_step(m, state, (unsigned char)chosen);
    }
    return true;
}
