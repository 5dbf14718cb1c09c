#include <stdlib.h>
#include <string.h>

#include "constraint/acceptor_nodes_internal.h"

enum { INDENT_SPACES = 4 /* of one level, at most; or one tab */ };

AcceptorLimits acceptor_limits_default(void) {
    return (AcceptorLimits){.nodes = 1000000,
                            .regex_nodes = 1000000,
                            .build_work = 20000000,
                            .step_work = 5000000,
                            .bytes = (size_t)64 << 20};
}

/* White space around values that are nested `depth` deep: nothing, a space, or a line end and its
 * indentation. In one line there is none but after a comma (`comma`). */
static Regex json_space(Acceptor *m, uint32_t depth, bool comma) {
    RegexArena *r = &m->regexes;
    if (!(m->form & JSON_ANY_SPACE))
        return comma ? regex_repeat(r, regex_byte(r, ' '), 0, 1) : REGEX_EMPTY;
    if (depth > INDENTED_LEVELS) depth = INDENTED_LEVELS;
    Regex indent = regex_or2(r, regex_repeat(r, regex_byte(r, ' '), 0, INDENT_SPACES * depth),
                             regex_repeat(r, regex_byte(r, '\t'), 0, depth));
    Regex line = regex_concat(r, regex_repeat(r, regex_byte(r, '\r'), 0, 1),
                              regex_concat(r, regex_byte(r, '\n'), indent));
    return regex_or(r, (Regex[]){REGEX_EMPTY, regex_byte(r, ' '), line}, 3);
}

static void make_punctuation(Acceptor *m, uint32_t depth) {
    RegexArena *r = &m->regexes;
    Punctuation *p = &m->punctuation[depth];
    Regex inside = json_space(m, depth, false), outside = json_space(m, depth - 1, false);
    Regex behind_comma = json_space(m, depth, true);
    Regex next = regex_tag(r, TAG_NEXT), close = regex_tag(r, TAG_CLOSE);
    Regex array_close = regex_concat(r, outside, regex_concat(r, regex_byte(r, ']'), close));
    p->object_close = regex_concat(r, outside, regex_concat(r, regex_byte(r, '}'), close));
    p->object_open = regex_concat(r, regex_byte(r, '{'), inside);
    p->object_open_empty = regex_concat(r, regex_byte(r, '{'), p->object_close);
    p->comma = regex_concat(r, regex_byte(r, ','), behind_comma);
    p->array_open = regex_concat(r, regex_byte(r, '['), regex_concat(r, inside, next));
    p->array_open_empty = regex_concat(r, regex_byte(r, '['), array_close);
    p->array_next = regex_concat(r, regex_byte(r, ','), regex_concat(r, behind_comma, next));
    p->array_close = array_close;
}

Acceptor *acceptor_new(const AcceptorLimits *limits, unsigned form) {
    Acceptor *m = calloc(1, sizeof *m);
    if (!m) return NULL;
    m->form = form;
    m->limits = *limits;
    RegexArena *r = &m->regexes;
    if (!regex_arena_init(r, limits->regex_nodes, limits->build_work)) {
        acceptor_free(m);
        return NULL;
    }
    m->colon = regex_concat(r, regex_byte(r, ':'), regex_repeat(r, regex_byte(r, ' '), 0, 1));
    for (uint32_t depth = 1; depth <= INDENTED_LEVELS + 1; depth++) make_punctuation(m, depth);
    return m;
}

static void free_running(Acceptor *m) {
    free(m->frames);
    index_table_free(&m->frame_table);
    free(m->sets);
    index_table_free(&m->set_table);
    free(m->states);
    index_table_free(&m->state_table);
    free(m->heads);
    free(m->rows);
    free(m->building);
    free(m->tasks);
    index_table_free(&m->task_table);
    free(m->costs);
    free(m->cost_sums);
    free(m->frame_costs);
}

void acceptor_free(Acceptor *m) {
    if (!m) return;
    for (size_t i = 0; i < m->n_objects; i++) {
        free(m->objects[i].members);
        free(m->objects[i].dependencies);
        free(m->objects[i].lexemes);
        free(m->objects[i].possible);
    }
    for (size_t i = 0; i < m->n_arrays; i++)
        free(m->arrays[i].first), free(m->arrays[i].first_hits);
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

bool acceptor_in_order(const Acceptor *m) {
    return !(m->form & JSON_ANY_ORDER);
}

static AcceptorNode add_node(Acceptor *m, Node node) {
    if (acceptor_gave_up(m)) return ACCEPTOR_NO_NODE;
    if (m->n_nodes >= m->limits.nodes) acceptor_fail(m, "it has too many parts");
    if (m->failed || !RESERVE(m, nodes, n_nodes, 1)) return ACCEPTOR_NO_NODE;
    m->nodes[m->n_nodes] = node;
    return (AcceptorNode)m->n_nodes++;
}

AcceptorNode acceptor_term(Acceptor *m, Regex regex) {
    return add_node(m, (Node){.kind = N_TERM, .a = regex});
}

static AcceptorNode add_list(Acceptor *m, unsigned kind, const AcceptorNode *items, size_t n) {
    if (acceptor_gave_up(m)) return ACCEPTOR_NO_NODE;
    if (m->n_items + n > 4 * m->limits.nodes) acceptor_fail(m, "it has too many parts");
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
    if (!acceptor_gave_up(m)) m->items[m->nodes[forward].a] = target;
}

static void *copy(Acceptor *m, const void *from, size_t n, size_t size) {
    void *out = calloc(n ? n : 1, size);
    if (!out) acceptor_fail(m, NO_MEMORY);
    if (out && n > 0) memcpy(out, from, n * size);
    return out;
}

AcceptorNode acceptor_object(Acceptor *m, const ObjectMember *members, size_t n,
                             const ObjectDependency *dependencies, size_t n_dependencies,
                             uint32_t min, uint32_t max) {
    RegexArena *r = &m->regexes;
    Object o = {.in_order = acceptor_in_order(m),
                .n = n,
                .n_dependencies = n_dependencies,
                .min = min,
                .max = max};
    if (acceptor_gave_up(m) || n >= TAG_NEXT || !RESERVE(m, objects, n_objects, 1))
        return ACCEPTOR_NO_NODE;
    o.members = copy(m, members, n, sizeof *members);
    o.dependencies = copy(m, dependencies, n_dependencies, sizeof *dependencies);
    o.lexemes = calloc(n ? n : 1, sizeof *o.lexemes);
    o.possible = calloc(n ? n : 1, sizeof *o.possible);
    if (!o.lexemes || !o.possible) acceptor_fail(m, NO_MEMORY);
    for (size_t i = 0; i < n && !acceptor_gave_up(m); i++) {
        o.lexemes[i] =
            regex_concat(r, members[i].key, regex_concat(r, m->colon, regex_tag(r, (uint32_t)i)));
        if (!members[i].many) o.n_named = i + 1;
    }
    o.words = (o.n_named + o.in_order + 63) / 64; /* acceptor_members.h */
    o.compares = min > 1 && o.n_named < n;
    m->compares |= o.compares;
    /* Names come to be expressions while a text is read: no byte may then need another class. */
    for (int b = 0; b < 256 && o.compares; b++) regex_byte(r, (unsigned char)b);
    m->objects[m->n_objects++] = o;
    return add_node(m, (Node){.kind = N_OBJECT, .a = (uint32_t)m->n_objects - 1});
}

AcceptorNode acceptor_array(Acceptor *m, const AcceptorNode *first, size_t n, AcceptorNode rest,
                            uint32_t min, uint32_t max, const ArrayHits *hits) {
    if (acceptor_gave_up(m) || !RESERVE(m, arrays, n_arrays, 1)) return ACCEPTOR_NO_NODE;
    Array a = {.n = n, .rest = rest, .min = min, .max = max, .max_hits = ACCEPTOR_NO_LIMIT};
    a.first = copy(m, first, n, sizeof *first);
    if (hits) {
        a.first_hits = copy(m, hits->first, n, sizeof *first);
        a.rest_hits = hits->rest;
        a.min_hits = hits->min;
        a.max_hits = hits->max;
    }
    m->arrays[m->n_arrays++] = a;
    return add_node(m, (Node){.kind = N_ARRAY, .a = (uint32_t)m->n_arrays - 1});
}
