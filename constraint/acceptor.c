#include "constraint/acceptor.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"

enum { MOST_HEADS = 4096, MOST_CLOSURE = 50000, MOST_INDENT = 40, MOST_TAGS = 16 };

typedef enum NodeKind { N_TERM, N_SEQUENCE, N_CHOICE, N_REPEAT, N_OBJECT, N_ARRAY } NodeKind;

typedef struct Node {
    uint8_t kind;
    bool productive, nullable;
    uint8_t mark;     /* of the search for left recursion */
    uint32_t a, b, c; /* term: regex a. sequence, choice: items a, b of them. repeat: item a, b to c
                         times. object, array: a is the index of its description */
} Node;

typedef struct Object {
    ObjectMember *members;
    ObjectDependency *dependencies;
    size_t n, n_dependencies, n_named, words; /* words of a set of members */
    uint32_t min, max;
    Regex *lexemes; /* a key with its colon and its tag */
    Regex close;
} Object;

typedef struct Array {
    AcceptorNode *first;
    size_t n;
    AcceptorNode rest;
    uint32_t min, max;
} Array;

/* What follows when something ends: node, and how far the parse is inside it. */
typedef struct Frame {
    uint32_t node, a, b, parent;
} Frame;

typedef struct Head {
    Regex regex;
    uint32_t frame;
} Head;

typedef struct State {
    uint32_t heads, n; /* in `heads` */
    uint32_t row;      /* in `rows`; 0: none yet */
    bool accepts;
    int8_t run;
} State;

/* A hash table of the indices of items, + 1. */
typedef struct Table {
    uint32_t *slots;
    size_t size, n;
} Table;

/* Something that a closure has to do: enter a node, or go on with a frame after `tag`. */
typedef struct Task {
    uint32_t what, frame, tag;
    bool enters;
} Task;

struct Acceptor {
    AcceptorLimits limits;
    RegexArena regexes;
    RegexMark mark;
    const char *failed;
    AcceptorNode root;
    size_t base_bytes; /* of the shape itself */
    Node *nodes;
    size_t n_nodes, nodes_capacity;
    uint32_t *items;
    size_t n_items, items_capacity;
    Object *objects;
    size_t n_objects, objects_capacity;
    Array *arrays;
    size_t n_arrays, arrays_capacity;
    Regex space, colon, array_open, array_open_empty, array_next, array_close, object_open, comma;
    /* What is made while it runs. */
    Frame *frames;
    size_t n_frames, frames_capacity;
    Table frame_table;
    uint64_t *sets; /* of members */
    size_t n_sets, sets_capacity;
    Table set_table;
    State *states;
    size_t n_states, states_capacity;
    Table state_table;
    Head *heads;
    size_t n_heads, heads_capacity;
    uint32_t *rows;
    size_t n_rows, rows_capacity;
    size_t n_classes;
    uint64_t epoch;
    AcceptorState start;
    uint32_t *costs;       /* [n_nodes] of acceptor_shortest; NULL: not asked for yet */
    uint32_t *frame_costs; /* [n_frame_costs] */
    size_t n_frame_costs, frame_costs_capacity;
    /* The closure that is being made. */
    Head *building;
    size_t n_building, building_capacity;
    Task *tasks;
    size_t n_tasks, first_task, tasks_capacity;
    Table task_table;
    bool accepts;
};

enum { TAG_CLOSE = 0x7FFFFFFF, TAG_NEXT = 0x7FFFFFFE };

static bool fail(Acceptor *m, const char *why) {
    if (!m->failed) m->failed = why;
    return false;
}

static bool failed(Acceptor *m) {
    if (m->regexes.failed) fail(m, m->regexes.failed);
    return m->failed != NULL;
}

#define NO_MEMORY "there is no memory for it"
#define RESERVE(m, list, count, more)                                                              \
    (array_reserve(&(m)->list, &(m)->list##_capacity, (m)->count + (more), sizeof *(m)->list) ||   \
     fail(m, NO_MEMORY))

/* ---- Tables -------------------------------------------------------------------------------- */

static uint64_t mix(uint64_t h, uint64_t x) {
    h = (h ^ x) * 0x9E3779B97F4A7C15u;
    return h ^ h >> 29;
}

static uint64_t hash_bytes(const void *bytes, size_t n) {
    const unsigned char *at = bytes;
    uint64_t h = n;
    for (; n >= 4; n -= 4, at += 4) {
        uint32_t word;
        memcpy(&word, at, 4);
        h = mix(h, word);
    }
    return mix(h, h >> 32);
}

static void table_clear(Table *t) {
    if (t->slots) memset(t->slots, 0, t->size * sizeof *t->slots);
    t->n = 0;
}

static void table_put(Table *t, uint64_t hash, uint32_t index) {
    size_t at = hash & (t->size - 1);
    while (t->slots[at]) at = (at + 1) & (t->size - 1);
    t->slots[at] = index + 1;
    t->n++;
}

/* Makes room for one more; the caller puts all items again where it returns 1. -1: no memory. */
static int table_grow(Table *t) {
    if (2 * (t->n + 1) <= t->size) return 0;
    size_t size = t->size ? 2 * t->size : 256;
    uint32_t *slots = calloc(size, sizeof *slots);
    if (!slots) return -1;
    free(t->slots);
    t->slots = slots;
    t->size = size;
    t->n = 0;
    return 1;
}

/* ---- Making nodes -------------------------------------------------------------------------- */

AcceptorLimits acceptor_limits_default(void) {
    return (AcceptorLimits){.nodes = 1000000,
                            .regex_nodes = 1000000,
                            .build_work = 20000000,
                            .step_work = 5000000,
                            .bytes = (size_t)64 << 20};
}

/* A character of JSON's syntax with the white space around it. */
static Regex punctuation(Acceptor *m, bool space_before, char c, bool space_after, uint32_t tag) {
    RegexArena *r = &m->regexes;
    Regex out = tag == REGEX_PLAIN ? REGEX_EMPTY : regex_tag(r, tag);
    if (space_after) out = regex_concat(r, m->space, out);
    out = regex_concat(r, regex_byte(r, (unsigned char)c), out);
    return space_before ? regex_concat(r, m->space, out) : out;
}

Acceptor *acceptor_new(const AcceptorLimits *limits) {
    Acceptor *m = calloc(1, sizeof *m);
    if (!m) return NULL;
    m->limits = *limits;
    RegexArena *r = &m->regexes;
    if (!regex_arena_init(r, limits->regex_nodes, limits->build_work)) {
        acceptor_free(m);
        return NULL;
    }
    ByteSet indent = {{0}};
    byteset_add(&indent, ' ', ' '), byteset_add(&indent, '\t', '\t');
    Regex line = regex_concat(r, regex_repeat(r, regex_byte(r, '\r'), 0, 1),
                              regex_concat(r, regex_byte(r, '\n'),
                                           regex_repeat(r, regex_set(r, &indent), 0, MOST_INDENT)));
    m->space = regex_or(r, (Regex[]){REGEX_EMPTY, regex_byte(r, ' '), line}, 3);
    m->colon = regex_concat(r, regex_byte(r, ':'), regex_repeat(r, regex_byte(r, ' '), 0, 1));
    Regex close = punctuation(m, false, ']', false, TAG_CLOSE);
    m->array_open = punctuation(m, false, '[', true, REGEX_PLAIN);
    m->array_open_empty = regex_concat(r, m->array_open, close);
    m->array_open = regex_concat(r, m->array_open, regex_tag(r, TAG_NEXT));
    m->array_next = punctuation(m, false, ',', true, TAG_NEXT);
    m->array_close = punctuation(m, true, ']', false, TAG_CLOSE);
    m->object_open = punctuation(m, false, '{', true, REGEX_PLAIN);
    m->comma = punctuation(m, false, ',', true, REGEX_PLAIN);
    return m;
}

static void free_running(Acceptor *m) {
    free(m->frames);
    free(m->frame_table.slots);
    free(m->sets);
    free(m->set_table.slots);
    free(m->states);
    free(m->state_table.slots);
    free(m->heads);
    free(m->rows);
    free(m->building);
    free(m->tasks);
    free(m->task_table.slots);
    free(m->costs);
    free(m->frame_costs);
}

void acceptor_free(Acceptor *m) {
    if (!m) return;
    for (size_t i = 0; i < m->n_objects; i++) {
        free(m->objects[i].members);
        free(m->objects[i].dependencies);
        free(m->objects[i].lexemes);
    }
    for (size_t i = 0; i < m->n_arrays; i++) free(m->arrays[i].first);
    free(m->objects);
    free(m->arrays);
    free(m->nodes);
    free(m->items);
    free_running(m);
    regex_arena_free(&m->regexes);
    free(m);
}

RegexArena *acceptor_regexes(Acceptor *m) {
    return &m->regexes;
}

Regex acceptor_json_space(Acceptor *m) {
    return m->space;
}

static AcceptorNode add_node(Acceptor *m, Node node) {
    if (failed(m)) return ACCEPTOR_NO_NODE;
    if (m->n_nodes >= m->limits.nodes) fail(m, "it has too many parts");
    if (m->failed || !RESERVE(m, nodes, n_nodes, 1)) return ACCEPTOR_NO_NODE;
    m->nodes[m->n_nodes] = node;
    return (AcceptorNode)m->n_nodes++;
}

AcceptorNode acceptor_term(Acceptor *m, Regex regex) {
    return add_node(m, (Node){.kind = N_TERM, .a = regex});
}

static AcceptorNode add_list(Acceptor *m, unsigned kind, const AcceptorNode *items, size_t n) {
    if (failed(m)) return ACCEPTOR_NO_NODE;
    if (m->n_items + n > 4 * m->limits.nodes) fail(m, "it has too many parts");
    if (m->failed || !RESERVE(m, items, n_items, n)) return ACCEPTOR_NO_NODE;
    if (n > 0) memcpy(m->items + m->n_items, items, n * sizeof *items);
    m->n_items += n;
    return add_node(
        m, (Node){.kind = (uint8_t)kind, .a = (uint32_t)(m->n_items - n), .b = (uint32_t)n});
}

AcceptorNode acceptor_sequence(Acceptor *m, const AcceptorNode *items, size_t n) {
    return n == 1 ? items[0] : add_list(m, N_SEQUENCE, items, n);
}

AcceptorNode acceptor_choice(Acceptor *m, const AcceptorNode *items, size_t n) {
    return n == 1 ? items[0] : add_list(m, N_CHOICE, items, n);
}

AcceptorNode acceptor_repeat(Acceptor *m, AcceptorNode item, uint32_t min, uint32_t max) {
    return add_node(m, (Node){.kind = N_REPEAT, .a = item, .b = min, .c = max});
}

AcceptorNode acceptor_forward(Acceptor *m) {
    AcceptorNode none = ACCEPTOR_NO_NODE;
    return add_list(m, N_CHOICE, &none, 1);
}

void acceptor_define(Acceptor *m, AcceptorNode forward, AcceptorNode target) {
    if (!failed(m)) m->items[m->nodes[forward].a] = target;
}

static void *copy(Acceptor *m, const void *from, size_t n, size_t size) {
    void *out = calloc(n ? n : 1, size);
    if (!out) fail(m, NO_MEMORY);
    if (out && n > 0) memcpy(out, from, n * size);
    return out;
}

AcceptorNode acceptor_object(Acceptor *m, const ObjectMember *members, size_t n,
                             const ObjectDependency *dependencies, size_t n_dependencies,
                             uint32_t min, uint32_t max) {
    RegexArena *r = &m->regexes;
    Object o = {.n = n, .n_dependencies = n_dependencies, .min = min, .max = max};
    if (failed(m) || n >= TAG_NEXT || !RESERVE(m, objects, n_objects, 1)) return ACCEPTOR_NO_NODE;
    o.members = copy(m, members, n, sizeof *members);
    o.dependencies = copy(m, dependencies, n_dependencies, sizeof *dependencies);
    o.lexemes = calloc(n ? n : 1, sizeof *o.lexemes);
    if (!o.lexemes) fail(m, NO_MEMORY);
    for (size_t i = 0; i < n && !failed(m); i++) {
        o.lexemes[i] =
            regex_concat(r, members[i].key, regex_concat(r, m->colon, regex_tag(r, (uint32_t)i)));
        if (!members[i].many) o.n_named = i + 1;
    }
    o.words = (o.n_named + 63) / 64;
    o.close = punctuation(m, true, '}', false, TAG_CLOSE);
    m->objects[m->n_objects++] = o;
    return add_node(m, (Node){.kind = N_OBJECT, .a = (uint32_t)m->n_objects - 1});
}

AcceptorNode acceptor_array(Acceptor *m, const AcceptorNode *first, size_t n, AcceptorNode rest,
                            uint32_t min, uint32_t max) {
    if (failed(m) || !RESERVE(m, arrays, n_arrays, 1)) return ACCEPTOR_NO_NODE;
    Array a = {.n = n, .rest = rest, .min = min, .max = max};
    a.first = copy(m, first, n, sizeof *first);
    m->arrays[m->n_arrays++] = a;
    return add_node(m, (Node){.kind = N_ARRAY, .a = (uint32_t)m->n_arrays - 1});
}

/* ---- What can match ------------------------------------------------------------------------ */

static bool is_productive(const Acceptor *m, AcceptorNode node) {
    return node != ACCEPTOR_NO_NODE && m->nodes[node].productive;
}

static bool object_productive(const Acceptor *m, const Object *o) {
    size_t n = 0, n_required = 0;
    for (size_t i = 0; i < o->n; i++) {
        const ObjectMember *member = &o->members[i];
        n_required += member->required;
        bool can = is_productive(m, member->value) && member->key != REGEX_NONE;
        if (member->required && !can) return false;
        if (can) n = member->many || n == UINT32_MAX ? UINT32_MAX : n + 1;
    }
    return n >= o->min && o->min <= o->max && n_required <= o->max;
}

/* The most items that an array can have. */
static uint32_t array_most(const Acceptor *m, const Array *a) {
    uint32_t i = 0;
    while (i < a->n && i < a->max && is_productive(m, a->first[i])) i++;
    return i < a->n || !is_productive(m, a->rest) ? i : a->max;
}

static bool node_productive(Acceptor *m, const Node *n) {
    switch ((NodeKind)n->kind) {
    case N_TERM:
        return regex_live(&m->regexes, n->a);
    case N_SEQUENCE:
        for (size_t i = 0; i < n->b; i++)
            if (!is_productive(m, m->items[n->a + i])) return false;
        return true;
    case N_CHOICE:
        for (size_t i = 0; i < n->b; i++)
            if (is_productive(m, m->items[n->a + i])) return true;
        return false;
    case N_REPEAT:
        return n->b <= n->c && (n->b == 0 || is_productive(m, n->a));
    case N_OBJECT:
        return object_productive(m, &m->objects[n->a]);
    case N_ARRAY: {
        const Array *a = &m->arrays[n->a];
        return a->min <= a->max && array_most(m, a) >= a->min;
    }
    }
    return false;
}

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
    while (changed && !failed(m)) {
        changed = false;
        for (size_t i = m->n_nodes; i-- > 0 && !failed(m);) {
            Node *n = &m->nodes[i];
            m->regexes.work += n->kind == N_OBJECT ? m->objects[n->a].n : 1;
            if (!n->productive && node_productive(m, n)) changed = n->productive = true;
            if (!n->nullable && node_nullable(m, n)) changed = n->nullable = true;
        }
        if (m->regexes.work > m->limits.build_work) fail(m, "it takes too many steps");
    }
    return failed(m) ? error_set(error, "the shape cannot be enforced: %s", m->failed) : STATUS_OK;
}

bool acceptor_productive(const Acceptor *m, AcceptorNode node) {
    return is_productive(m, node);
}

/* Whether `to` begins where `from` does, with something to follow: then recursion never ends. */
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

/* Strongly connected components would be exact; a cycle through any edge that pushes is found by
 * looking, for each such edge, whether its source can be reached again. Depth first, iterative:
 * `order` numbers nodes, `low` is Tarjan's. */
static bool left_recursive(Acceptor *m) {
    size_t n = m->n_nodes, depth = 0, n_open = 0, counter = 0;
    uint32_t *order = calloc(n + 1, sizeof *order), *low = calloc(n + 1, sizeof *low);
    uint32_t *open = calloc(n + 1, sizeof *open), *component = calloc(n + 1, sizeof *component);
    Visit *stack = calloc(n + 1, sizeof *stack);
    bool found = false, pushes;
    if (!order || !low || !open || !component || !stack) fail(m, NO_MEMORY);
    for (size_t root = 0; root < n && !m->failed; root++) {
        if (order[root]) continue;
        stack[depth++] = (Visit){(uint32_t)root, 0};
        while (depth > 0) {
            Visit *v = &stack[depth - 1];
            uint32_t node = v->node;
            if (v->at == 0) order[node] = low[node] = (uint32_t)++counter, open[n_open++] = node;
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
    free(order), free(low), free(open), free(component), free(stack);
    return found;
}

static void forget_states(Acceptor *m);

Status acceptor_finish(Acceptor *m, AcceptorNode root, Error *error) {
    if (acceptor_analyse(m, error) != STATUS_OK) return STATUS_FAILED;
    if (!is_productive(m, root)) return error_set(error, "no text has this shape");
    if (left_recursive(m)) return error_set(error, "left recursion in a grammar is not supported");
    m->root = root;
    m->mark = regex_arena_mark(&m->regexes);
    m->n_classes = m->regexes.n_classes;
    m->base_bytes = regex_arena_bytes(&m->regexes);
    forget_states(m);
    if (acceptor_start(m) == ACCEPTOR_DEAD || failed(m))
        return error_set(error, "the shape cannot be enforced: %s",
                         m->failed ? m->failed : "it cannot begin");
    return STATUS_OK;
}

/* ---- Frames and sets ------------------------------------------------------------------------ */

static uint32_t intern_frame(Acceptor *m, Frame frame) {
    int grown = table_grow(&m->frame_table);
    if (grown < 0 || !RESERVE(m, frames, n_frames, 1)) return fail(m, NO_MEMORY), 0;
    for (size_t i = 0; grown && i < m->n_frames; i++)
        table_put(&m->frame_table, hash_bytes(&m->frames[i], sizeof frame), (uint32_t)i);
    uint64_t hash = hash_bytes(&frame, sizeof frame);
    size_t mask = m->frame_table.size - 1;
    for (size_t at = hash & mask; m->frame_table.slots[at]; at = (at + 1) & mask) {
        uint32_t i = m->frame_table.slots[at] - 1;
        if (memcmp(&m->frames[i], &frame, sizeof frame) == 0) return i;
    }
    m->frames[m->n_frames] = frame;
    table_put(&m->frame_table, hash, (uint32_t)m->n_frames);
    return (uint32_t)m->n_frames++;
}

/* The place in m->sets of set `old` (of `words` words; UINT32_MAX: the empty one) with `member`. */
static uint32_t set_with(Acceptor *m, uint32_t old, size_t words, uint32_t member) {
    if (!RESERVE(m, sets, n_sets, words + 1)) return 0;
    uint64_t *to = m->sets + m->n_sets + 1;
    to[-1] = words;
    if (old == UINT32_MAX)
        memset(to, 0, words * sizeof *to);
    else
        memcpy(to, m->sets + old, words * sizeof *to);
    to[member / 64] |= (uint64_t)1 << (member % 64);
    int grown = table_grow(&m->set_table);
    if (grown < 0) return fail(m, NO_MEMORY), 0;
    for (size_t at = 0; grown && at < m->n_sets; at += m->sets[at] + 1)
        table_put(&m->set_table, hash_bytes(m->sets + at, (m->sets[at] + 1) * 8), (uint32_t)at);
    uint64_t hash = hash_bytes(to - 1, (words + 1) * 8);
    size_t mask = m->set_table.size - 1;
    for (size_t at = hash & mask; m->set_table.slots[at]; at = (at + 1) & mask) {
        uint32_t i = m->set_table.slots[at] - 1;
        if (memcmp(m->sets + i, to - 1, (words + 1) * 8) == 0) return i + 1;
    }
    table_put(&m->set_table, hash, (uint32_t)m->n_sets);
    m->n_sets += words + 1;
    return (uint32_t)(m->n_sets - words);
}

static bool set_has(const Acceptor *m, uint32_t set, size_t member) {
    return set != UINT32_MAX && m->sets[set + member / 64] >> (member % 64) & 1;
}

/* ---- Closures: from what was read to the heads that go on --------------------------------- */

static void add_task(Acceptor *m, Task task) {
    int grown = table_grow(&m->task_table);
    if (grown < 0 || !RESERVE(m, tasks, n_tasks, 1)) {
        fail(m, NO_MEMORY);
        return;
    }
    uint32_t key[] = {task.what, task.frame, task.tag, task.enters};
    for (size_t i = 0; grown && i < m->n_tasks; i++) {
        const Task *t = &m->tasks[i];
        uint32_t old[] = {t->what, t->frame, t->tag, t->enters};
        table_put(&m->task_table, hash_bytes(old, sizeof old), (uint32_t)i);
    }
    uint64_t hash = hash_bytes(key, sizeof key);
    size_t mask = m->task_table.size - 1;
    for (size_t at = hash & mask; m->task_table.slots[at]; at = (at + 1) & mask) {
        const Task *t = &m->tasks[m->task_table.slots[at] - 1];
        if (t->what == task.what && t->frame == task.frame && t->tag == task.tag &&
            t->enters == task.enters)
            return;
    }
    if (m->n_tasks >= MOST_CLOSURE) {
        fail(m, "it leaves too many choices open");
        return;
    }
    table_put(&m->task_table, hash, (uint32_t)m->n_tasks);
    m->tasks[m->n_tasks++] = task;
}

static void enter(Acceptor *m, AcceptorNode node, uint32_t frame) {
    if (is_productive(m, node)) add_task(m, (Task){.what = node, .frame = frame, .enters = true});
}

static void resume(Acceptor *m, uint32_t frame, uint32_t tag) {
    add_task(m, (Task){.frame = frame, .tag = tag});
}

static void add_head(Acceptor *m, Regex regex, uint32_t frame) {
    uint32_t few[MOST_TAGS], *tags = few;
    if (regex == REGEX_NONE || m->failed) return;
    if (!regex_is_end(&m->regexes, regex)) {
        if (m->n_building >= MOST_HEADS) {
            fail(m, "it leaves too many choices open");
            return;
        }
        if (!RESERVE(m, building, n_building, 1)) return;
        m->building[m->n_building++] = (Head){regex, frame};
    }
    if (!regex_nullable(&m->regexes, regex)) return;
    size_t n = regex_tags(&m->regexes, regex, few, MOST_TAGS);
    if (n > MOST_TAGS) {
        tags = malloc(n * sizeof *tags);
        if (!tags) {
            fail(m, NO_MEMORY);
            return;
        }
        regex_tags(&m->regexes, regex, tags, n);
    }
    for (size_t i = 0; i < n; i++) resume(m, frame, tags[i]);
    if (tags != few) free(tags);
}

static void repeat_at(Acceptor *m, AcceptorNode node, uint32_t count, uint32_t parent) {
    const Node *n = &m->nodes[node];
    uint32_t most = n->c == REGEX_MANY ? n->b : n->c;
    if (count >= n->b || m->nodes[n->a].nullable) resume(m, parent, REGEX_PLAIN);
    if (n->c == REGEX_MANY || count < n->c) {
        uint32_t next = count < most ? count + 1 : most;
        enter(m, n->a, intern_frame(m, (Frame){node, next, 0, parent}));
    }
}

static void sequence_at(Acceptor *m, AcceptorNode node, uint32_t at, uint32_t parent) {
    const Node *n = &m->nodes[node];
    if (at == n->b) {
        resume(m, parent, REGEX_PLAIN);
        return;
    }
    uint32_t frame = at + 1 == n->b ? parent : intern_frame(m, (Frame){node, at + 1, 0, parent});
    enter(m, m->items[n->a + at], frame);
}

/* An object's frame: a is the set of its members, b is the number of members (as far as it matters)
 * twice, plus 1 while a value is being read. */
static uint32_t object_frame(Acceptor *m, AcceptorNode node, uint32_t set, uint32_t count,
                             bool in_value, uint32_t parent) {
    return intern_frame(m, (Frame){node, set, count << 1 | in_value, parent});
}

static bool member_needed(const Acceptor *m, const Object *o, uint32_t set, size_t member) {
    if (member >= o->n_named || set_has(m, set, member)) return false;
    if (o->members[member].required) return true;
    for (size_t i = 0; i < o->n_dependencies; i++)
        if (o->dependencies[i].then_member == member &&
            set_has(m, set, o->dependencies[i].if_member))
            return true;
    return false;
}

/* Appends the expressions of what may follow inside an object to `out`: with `lead` before a key,
 * `close` where it may end. */
static Regex object_rest(Acceptor *m, const Object *o, uint32_t set, uint32_t count, Regex lead,
                         Regex close) {
    size_t n = 0, n_needed = 0;
    Regex *items = malloc((o->n + 1) * sizeof *items), out = REGEX_NONE;
    if (!items) return fail(m, NO_MEMORY), REGEX_NONE;
    for (size_t i = 0; i < o->n_named; i++) n_needed += member_needed(m, o, set, i);
    bool full = o->max != ACCEPTOR_NO_LIMIT && count >= o->max;
    bool only_needed = o->max != ACCEPTOR_NO_LIMIT && o->max - count <= n_needed;
    for (size_t i = 0; i < o->n && !full; i++) {
        if (i < o->n_named && set_has(m, set, i)) continue;
        if (only_needed && !member_needed(m, o, set, i)) continue;
        if (is_productive(m, o->members[i].value)) items[n++] = o->lexemes[i];
    }
    out = regex_concat(&m->regexes, lead, regex_or(&m->regexes, items, n));
    if (n_needed == 0 && count >= o->min) out = regex_or2(&m->regexes, out, close);
    free(items);
    return out;
}

static void object_at(Acceptor *m, const Frame *f, uint32_t tag) {
    const Object *o = &m->objects[m->nodes[f->node].a];
    uint32_t count = f->b >> 1, set = f->a;
    if (f->b & 1) { /* a value has ended */
        Regex rest = object_rest(m, o, set, count, m->comma, o->close);
        add_head(m, rest, object_frame(m, f->node, set, count, false, f->parent));
    } else if (tag == TAG_CLOSE) {
        resume(m, f->parent, REGEX_PLAIN);
    } else if (tag < o->n) {
        uint32_t most = o->max != ACCEPTOR_NO_LIMIT ? o->max : o->min;
        if (count < most) count++;
        if (tag < o->n_named) set = set_with(m, set, o->words, tag);
        enter(m, o->members[tag].value, object_frame(m, f->node, set, count, true, f->parent));
    }
}

/* An array's frame: a is the number of items (as far as it matters) twice, plus 1 while an item is
 * being read. */
static void array_at(Acceptor *m, const Frame *f, uint32_t tag) {
    const Array *a = &m->arrays[m->nodes[f->node].a];
    uint32_t count = f->a >> 1, most = array_most(m, a);
    if (f->a & 1) {
        Regex rest = count < most ? m->array_next : REGEX_NONE;
        if (count >= a->min) rest = regex_or2(&m->regexes, rest, m->array_close);
        add_head(m, rest, intern_frame(m, (Frame){f->node, count << 1, 0, f->parent}));
    } else if (tag == TAG_CLOSE) {
        resume(m, f->parent, REGEX_PLAIN);
    } else {
        AcceptorNode item = count < a->n ? a->first[count] : a->rest;
        uint32_t matters = most != ACCEPTOR_NO_LIMIT ? most : a->min;
        if (most == ACCEPTOR_NO_LIMIT && a->n > matters) matters = (uint32_t)a->n;
        if (count < matters) count++;
        enter(m, item, intern_frame(m, (Frame){f->node, count << 1 | 1, 0, f->parent}));
    }
}

static void enter_now(Acceptor *m, AcceptorNode node, uint32_t frame) {
    const Node n = m->nodes[node];
    switch ((NodeKind)n.kind) {
    case N_TERM:
        add_head(m, n.a, frame);
        break;
    case N_SEQUENCE:
        sequence_at(m, node, 0, frame);
        break;
    case N_CHOICE:
        for (size_t i = 0; i < n.b; i++) enter(m, m->items[n.a + i], frame);
        break;
    case N_REPEAT:
        repeat_at(m, node, 0, frame);
        break;
    case N_OBJECT: {
        const Object *o = &m->objects[n.a];
        Regex close = regex_concat(&m->regexes, m->object_open,
                                   regex_concat(&m->regexes, regex_byte(&m->regexes, '}'),
                                                regex_tag(&m->regexes, TAG_CLOSE)));
        add_head(m, object_rest(m, o, UINT32_MAX, 0, m->object_open, close),
                 object_frame(m, node, UINT32_MAX, 0, false, frame));
        break;
    }
    case N_ARRAY: {
        const Array *a = &m->arrays[n.a];
        Regex open = array_most(m, a) > 0 ? m->array_open : REGEX_NONE;
        if (a->min == 0) open = regex_or2(&m->regexes, open, m->array_open_empty);
        add_head(m, open, intern_frame(m, (Frame){node, 0, 0, frame}));
        break;
    }
    }
}

static void resume_now(Acceptor *m, uint32_t frame, uint32_t tag) {
    const Frame f = m->frames[frame];
    if (frame == 0) {
        m->accepts = true;
        return;
    }
    switch ((NodeKind)m->nodes[f.node].kind) {
    case N_SEQUENCE:
        sequence_at(m, f.node, f.a, f.parent);
        break;
    case N_REPEAT:
        repeat_at(m, f.node, f.a, f.parent);
        break;
    case N_OBJECT:
        object_at(m, &f, tag);
        break;
    case N_ARRAY:
        array_at(m, &f, tag);
        break;
    default:
        break;
    }
}

static void begin_closure(Acceptor *m) {
    m->n_building = m->n_tasks = m->first_task = 0;
    m->accepts = false;
    if (m->task_table.n > 0) table_clear(&m->task_table);
}

static int compare_heads(const void *a, const void *b) {
    const Head *x = a, *y = b;
    if (x->frame != y->frame) return x->frame < y->frame ? -1 : 1;
    return x->regex < y->regex ? -1 : x->regex > y->regex;
}

static uint64_t hash_state(const Acceptor *m, const State *s) {
    return mix(hash_bytes(m->heads + s->heads, s->n * sizeof(Head)), s->accepts);
}

/* The state of the heads that were built. */
static AcceptorState intern_state(Acceptor *m) {
    size_t n = 0;
    Head *b = m->building;
    if (m->n_building > 1) qsort(b, m->n_building, sizeof *b, compare_heads);
    for (size_t i = 0; i < m->n_building; i++)
        if (n == 0 || compare_heads(&b[i], &b[n - 1]) != 0) b[n++] = b[i];
    if (n == 0 && !m->accepts) return ACCEPTOR_DEAD;
    int grown = table_grow(&m->state_table);
    if (grown < 0 || !RESERVE(m, heads, n_heads, n + 1) || !RESERVE(m, states, n_states, 1))
        return fail(m, NO_MEMORY), ACCEPTOR_DEAD;
    for (size_t i = 1; grown && i < m->n_states; i++)
        table_put(&m->state_table, hash_state(m, &m->states[i]), (uint32_t)i);
    State s = {.heads = (uint32_t)m->n_heads, .n = (uint32_t)n, .accepts = m->accepts, .run = -1};
    if (n > 0) memcpy(m->heads + m->n_heads, b, n * sizeof *b);
    uint64_t hash = hash_state(m, &s);
    size_t mask = m->state_table.size - 1;
    for (size_t at = hash & mask; m->state_table.slots[at]; at = (at + 1) & mask) {
        uint32_t i = m->state_table.slots[at] - 1;
        const State *o = &m->states[i];
        if (o->n == n && o->accepts == s.accepts &&
            memcmp(m->heads + o->heads, m->heads + s.heads, n * sizeof *b) == 0)
            return i;
    }
    m->n_heads += n;
    m->states[m->n_states] = s;
    table_put(&m->state_table, hash, (uint32_t)m->n_states);
    return (AcceptorState)m->n_states++;
}

static AcceptorState end_closure(Acceptor *m) {
    while (m->first_task < m->n_tasks && !failed(m)) {
        Task t = m->tasks[m->first_task++];
        if (t.enters)
            enter_now(m, t.what, t.frame);
        else
            resume_now(m, t.frame, t.tag);
    }
    return failed(m) ? ACCEPTOR_DEAD : intern_state(m);
}

/* ---- Running -------------------------------------------------------------------------------- */

static void forget_states(Acceptor *m) {
    m->n_frame_costs = 0;
    m->n_frames = m->n_sets = m->n_states = m->n_heads = m->n_rows = 0;
    table_clear(&m->frame_table);
    table_clear(&m->set_table);
    table_clear(&m->state_table);
    m->start = ACCEPTOR_DEAD;
    m->epoch++;
    /* Frame 0 is the end of the text, state 0 the dead one, row 0 none. */
    intern_frame(m, (Frame){UINT32_MAX, 0, 0, 0});
    if (RESERVE(m, states, n_states, 1)) m->states[m->n_states++] = (State){.run = 0};
    m->n_rows = 1;
}

void acceptor_begin_work(Acceptor *m) {
    m->regexes.work = 0;
    m->regexes.most_work = m->limits.step_work;
}

AcceptorState acceptor_start(Acceptor *m) {
    if (m->start != ACCEPTOR_DEAD || failed(m)) return m->start;
    begin_closure(m);
    enter(m, m->root, 0);
    return m->start = end_closure(m);
}

static AcceptorState step_new(Acceptor *m, AcceptorState state, unsigned char byte) {
    State s = m->states[state];
    begin_closure(m);
    for (size_t i = 0; i < s.n && !failed(m); i++) {
        Head h = m->heads[s.heads + i];
        Regex next = regex_derive(&m->regexes, h.regex, byte);
        if (next != REGEX_NONE) add_head(m, next, h.frame);
    }
    return end_closure(m);
}

AcceptorState acceptor_step(Acceptor *m, AcceptorState state, unsigned char byte) {
    if (state == ACCEPTOR_DEAD || m->failed) return ACCEPTOR_DEAD;
    uint32_t row = m->states[state].row, class = m->regexes.class_of[byte];
    if (row && m->rows[row + class]) return m->rows[row + class] - 1;
    if (!row) {
        if (!RESERVE(m, rows, n_rows, m->n_classes)) return ACCEPTOR_DEAD;
        row = m->states[state].row = (uint32_t)m->n_rows;
        memset(m->rows + row, 0, m->n_classes * sizeof *m->rows);
        m->n_rows += m->n_classes;
    }
    AcceptorState next = step_new(m, state, byte);
    if (m->regexes.n_classes != m->n_classes) fail(m, "its byte classes changed");
    if (failed(m)) return ACCEPTOR_DEAD;
    m->rows[row + class] = next + 1;
    return next;
}

bool acceptor_accepts(const Acceptor *m, AcceptorState state) {
    return m->states[state].accepts;
}

bool acceptor_complete(const Acceptor *m, AcceptorState state) {
    return m->states[state].accepts && m->states[state].n == 0;
}

int acceptor_safe_run(Acceptor *m, AcceptorState state) {
    State *s = &m->states[state];
    if (s->run >= 0) return s->run;
    int run = 0;
    for (size_t i = 0; i < s->n && run < REGEX_RUN_ALL; i++) {
        int own = regex_safe_run(&m->regexes, m->heads[s->heads + i].regex);
        if (own > run) run = own;
    }
    s->run = (int8_t)run;
    return run;
}

ByteSet acceptor_bytes(Acceptor *m, AcceptorState state) {
    ByteSet out = {{0}};
    for (unsigned b = 0; b < 256; b++)
        if (acceptor_step(m, state, (unsigned char)b) != ACCEPTOR_DEAD) byteset_add(&out, b, b);
    return out;
}

const char *acceptor_failed(const Acceptor *m) {
    return m->failed;
}

void acceptor_recover(Acceptor *m) {
    if (!failed(m)) return;
    m->failed = m->regexes.failed = NULL;
    free(m->costs);
    m->costs = NULL;
    regex_arena_rewind(&m->regexes, m->mark);
    m->n_classes = m->regexes.n_classes;
    forget_states(m);
}

uint64_t acceptor_epoch(const Acceptor *m) {
    return m->epoch;
}

void acceptor_trim(Acceptor *m) {
    size_t bytes = m->n_frames * sizeof *m->frames + m->n_sets * sizeof *m->sets +
                   m->n_states * sizeof *m->states + m->n_heads * sizeof *m->heads +
                   m->n_rows * sizeof *m->rows + regex_arena_bytes(&m->regexes);
    size_t n_made = m->regexes.n_nodes - m->mark.n_nodes;
    if (bytes <= m->base_bytes + m->limits.bytes && n_made <= m->limits.regex_nodes / 4) return;
    regex_arena_rewind(&m->regexes, m->mark);
    forget_states(m);
}

/* ---- Short ways to the end --------------------------------------------------------------------
 */

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
        if (i < o->n_named && set_has(m, set, i)) continue;
        bool needed = member_needed(m, o, set, i);
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
    for (bool changed = true; changed && !failed(m);) {
        changed = false;
        for (size_t i = m->n_nodes; i-- > 0;) {
            if (!m->nodes[i].productive) continue;
            uint32_t cost = new_node_cost(m, &m->nodes[i]);
            if (cost >= m->costs[i]) continue;
            m->costs[i] = cost;
            changed = true;
        }
    }
    return !failed(m);
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
    return !failed(m);
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
        if (least == UINT32_MAX || *n == most || sideways > MOST_SIDEWAYS || failed(m))
            return false;
        out[(*n)++] = (char)chosen;
        state = acceptor_step(m, state, (unsigned char)chosen);
    }
    return true;
}
