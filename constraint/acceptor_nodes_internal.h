/* What the files of the acceptor share. */
#ifndef CONSTRAINT_ACCEPTOR_NODES_INTERNAL_H
#define CONSTRAINT_ACCEPTOR_NODES_INTERNAL_H

#include "base/array.h"
#include "constraint/acceptor_nodes.h"

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
    bool in_order;                            /* members come in the order of the list */
    size_t n, n_dependencies, n_named, words; /* words of a set of members (acceptor_members.h) */
    uint32_t min, max;
    Regex *lexemes; /* a key with its colon and its tag */
    bool *possible; /* the members that the object can have, with all that depend on them */
    /* `min` counts different names, so the names of members that stand for many are compared. */
    bool compares;
    uint32_t n_names; /* that members which stand for many have together, at most `min` */
} Object;

typedef struct Array {
    AcceptorNode *first, *first_hits; /* first_hits NULL: there are no hits to count */
    size_t n;
    AcceptorNode rest, rest_hits;
    uint32_t min, max, min_hits, max_hits;
    uint32_t most; /* items that it can have, by acceptor_analyse */
    size_t sums;   /* of `first` in the acceptor's cost_sums */
} Array;

/* What follows when something ends: node, and how far the parse is inside it. */
typedef struct Frame {
    uint32_t node, a, b, parent;
    uint32_t depth; /* objects and arrays from the frame to the whole text; the acceptor counts */
} Frame;

/* Instead of a node: a frame between that of an object that compares names and its parent, with the
 * lexeme being read (a) and the names so far (b); a byte `a` after lexeme `parent`; a name `a`
 * after the names `parent`. */
enum { FRAME_NAMES = 0x7FFFFFF0, FRAME_BYTE, FRAME_NAME };

static inline bool is_node(uint32_t node) {
    return node < FRAME_NAMES;
}

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

/* JSON's syntax in an object or array of one depth, with the white space around it. */
typedef struct Punctuation {
    Regex object_open, object_open_empty, comma, object_close;
    Regex array_open, array_open_empty, array_next, array_close;
} Punctuation;

/* Deeper levels have at most the indentation of this one. */
enum { INDENTED_LEVELS = 10 };

/* Something that a closure has to do: enter a node, or go on with a frame after `tag`. */
typedef struct Task {
    uint32_t what, frame, tag;
    bool enters;
} Task;

struct Acceptor {
    AcceptorLimits limits;
    unsigned form; /* flags of JsonForm */
    RegexArena regexes;
    RegexMark mark;
    const char *failed;
    AcceptorNode root;
    size_t base_bytes; /* of the shape itself */
    bool compares;     /* some object does */
    Node *nodes;
    size_t n_nodes, nodes_capacity;
    uint32_t *items;
    size_t n_items, items_capacity;
    Object *objects;
    size_t n_objects, objects_capacity;
    Array *arrays;
    size_t n_arrays, arrays_capacity;
    Regex colon;
    Punctuation punctuation[INDENTED_LEVELS + 2]; /* [depth], the last of all deeper; not [0] */
    /* What is made while it runs (acceptor.c). */
    Frame *frames;
    size_t n_frames, frames_capacity;
    IndexTable frame_table;
    uint64_t *sets; /* of members */
    size_t n_sets, sets_capacity;
    IndexTable set_table;
    State *states;
    size_t n_states, states_capacity;
    IndexTable state_table;
    Head *heads;
    size_t n_heads, heads_capacity;
    uint32_t *rows;
    size_t n_rows, rows_capacity;
    size_t n_classes;
    uint64_t epoch;
    uint32_t start;        /* a state; 0: not made yet */
    uint32_t *costs;       /* [n_nodes] of acceptor_shortest; NULL: not asked for yet */
    uint64_t *cost_sums;   /* of the costs before each item, then of each array's `first` */
    uint32_t *frame_costs; /* [n_frame_costs] */
    size_t n_frame_costs, frame_costs_capacity;
    /* The closure that is being made. */
    Head *building;
    size_t n_building, building_capacity;
    Task *tasks;
    size_t n_tasks, first_task, tasks_capacity;
    IndexTable task_table;
    bool accepts;
};

enum { TAG_CLOSE = 0x7FFFFFFF, TAG_NEXT = 0x7FFFFFFE };

static inline bool acceptor_fail(Acceptor *m, const char *why) {
    if (!m->failed) m->failed = why;
    return false;
}

static inline bool acceptor_gave_up(Acceptor *m) {
    if (m->regexes.failed) acceptor_fail(m, m->regexes.failed);
    return m->failed != NULL;
}

#define NO_MEMORY "there is no memory for it"
#define RESERVE(m, list, count, more)                                                              \
    (array_reserve(&(m)->list, &(m)->list##_capacity, (m)->count + (more), sizeof *(m)->list) ||   \
     acceptor_fail(m, NO_MEMORY))

/* The size of the list that a node has. */
static inline size_t acceptor_list_size(const Acceptor *m, const Node *n) {
    if (n->kind == N_OBJECT) return m->objects[n->a].n;
    if (n->kind == N_ARRAY) return m->arrays[n->a].n;
    return n->kind == N_SEQUENCE || n->kind == N_CHOICE ? n->b : 0;
}

#endif
