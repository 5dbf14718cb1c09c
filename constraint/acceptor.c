#include "constraint/acceptor.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "constraint/acceptor_analysis.h"
#include "constraint/acceptor_members.h"
#include "constraint/acceptor_nodes_internal.h"
#include "constraint/regex_derivative.h"
#include "constraint/regex_safe_run.h"

enum { MOST_HEADS = 4096, MOST_CLOSURE = 50000, MOST_TAGS = 16 };
enum { KEPT_ROWS = 4 << 20 }; /* steps whose memory is kept when states are forgotten */

/* ---- Frames ---------------------------------------------------------------------------------- */

static bool nests(const Acceptor *m, uint32_t node) {
    return is_node(node) && (m->nodes[node].kind == N_OBJECT || m->nodes[node].kind == N_ARRAY);
}

static uint64_t hash_frame(const void *acceptor, uint32_t i) {
    return XXH3_64bits(&((const Acceptor *)acceptor)->frames[i], sizeof(Frame));
}

/* Counts the frame's depth, too. */
static uint32_t intern_frame(Acceptor *m, Frame frame) {
    IndexTable *table = &m->frame_table;
    if (!index_table_reserve(table, hash_frame, m) || !RESERVE(m, frames, n_frames, 1))
        return acceptor_fail(m, NO_MEMORY), 0;
    frame.depth = m->n_frames > 0 ? m->frames[frame.parent].depth + nests(m, frame.node) : 0;
    m->frames[m->n_frames] = frame;
    size_t at = index_table_first(table, hash_frame(m, (uint32_t)m->n_frames));
    for (; table->slots[at]; at = index_table_next(table, at)) {
        uint32_t i = table->slots[at] - 1;
        if (memcmp(&m->frames[i], &frame, sizeof frame) == 0) return i;
    }
    index_table_set(table, at, m->n_frames);
    return (uint32_t)m->n_frames++;
}

/* ---- Closures: from what was read to the heads that go on --------------------------------- */

static uint64_t hash_task(const void *acceptor, uint32_t i) {
    const Task *t = &((const Acceptor *)acceptor)->tasks[i];
    uint32_t key[] = {t->what, t->frame, t->tag, t->enters}; /* without padding */
    return XXH3_64bits(key, sizeof key);
}

/* Plans a task of the closure, unless it was planned before. */
static void add_task(Acceptor *m, Task task) {
    IndexTable *table = &m->task_table;
    if (!index_table_reserve(table, hash_task, m) || !RESERVE(m, tasks, n_tasks, 1)) {
        acceptor_fail(m, NO_MEMORY);
        return;
    }
    m->tasks[m->n_tasks] = task;
    size_t at = index_table_first(table, hash_task(m, (uint32_t)m->n_tasks));
    for (; table->slots[at]; at = index_table_next(table, at)) {
        const Task *t = &m->tasks[table->slots[at] - 1];
        if (t->what == task.what && t->frame == task.frame && t->tag == task.tag &&
            t->enters == task.enters)
            return;
    }
    if (m->n_tasks >= MOST_CLOSURE) {
        acceptor_fail(m, "it leaves too many choices open");
        return;
    }
    index_table_set(table, at, m->n_tasks++);
}

/* Plans to begin a node inside the frame, unless no text can end it. */
static void enter(Acceptor *m, AcceptorNode node, uint32_t frame) {
    if (acceptor_productive(m, node))
        add_task(m, (Task){.what = node, .frame = frame, .enters = true});
}

/* Plans to go on in a frame whose part with this tag has ended. */
static void resume(Acceptor *m, uint32_t frame, uint32_t tag) {
    add_task(m, (Task){.frame = frame, .tag = tag});
}

/* Adds a state of the automaton: what the next bytes must match, and the frame to return to. Where
 * the expression may already end here, resumes the frame too, once for each tag that could end. */
static void add_head(Acceptor *m, Regex regex, uint32_t frame) {
    uint32_t few[MOST_TAGS], *tags = few;
    if (regex == REGEX_NONE || m->failed) return;
    if (!regex_is_end(&m->regexes, regex)) {
        if (m->n_building >= MOST_HEADS) {
            acceptor_fail(m, "it leaves too many choices open");
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
            acceptor_fail(m, NO_MEMORY);
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
        enter(m, n->a, intern_frame(m, (Frame){node, next, 0, parent, 0}));
    }
}

static void sequence_at(Acceptor *m, AcceptorNode node, uint32_t at, uint32_t parent) {
    const Node *n = &m->nodes[node];
    if (at == n->b) {
        resume(m, parent, REGEX_PLAIN);
        return;
    }
    uint32_t frame = at + 1 == n->b ? parent : intern_frame(m, (Frame){node, at + 1, 0, parent, 0});
    enter(m, m->items[n->a + at], frame);
}

/* An object's frame: a is the set of its members, b is the number of members (as far as it matters)
 * twice, plus 1 while a value is being read. */
static uint32_t object_frame(Acceptor *m, AcceptorNode node, uint32_t set, uint32_t count,
                             bool in_value, uint32_t parent) {
    return intern_frame(m, (Frame){node, set, count << 1 | in_value, parent, 0});
}

/* ---- Names that an object compares ---- */

/* The frame between an object that compares names and `parent`. */
static uint32_t names_frame(Acceptor *m, uint32_t lexeme, uint32_t names, uint32_t parent) {
    return intern_frame(m, (Frame){FRAME_NAMES, lexeme, names, parent, 0});
}

static bool compares_names(const Acceptor *m, const Frame *object) {
    return object->parent != 0 && m->frames[object->parent].node == FRAME_NAMES;
}

/* The frame of a head whose next byte is read: a byte more of the lexeme between two members. */
static uint32_t frame_with_byte(Acceptor *m, uint32_t frame, unsigned char byte) {
    Frame f = m->frames[frame];
    if (frame == 0 || !is_node(f.node) || m->nodes[f.node].kind != N_OBJECT || f.b & 1 ||
        !compares_names(m, &f))
        return frame;
    const Frame n = m->frames[f.parent];
    f.parent = names_frame(m, intern_frame(m, (Frame){FRAME_BYTE, byte, 0, n.a, 0}), n.b, n.parent);
    return intern_frame(m, f);
}

/* The expression of the name in a lexeme, with its quotes. The lexeme's frames lead from its last
 * byte to its first, so bytes[] is reversed; prepending each byte restores the order. */
static Regex name_of(Acceptor *m, uint32_t lexeme) {
    size_t n = 0, capacity = 0, first = 0, last = 0;
    char *bytes = NULL;
    for (uint32_t at = lexeme; at != 0; at = m->frames[at].parent) {
        if (!array_reserve(&bytes, &capacity, n + 1, 1)) {
            acceptor_fail(m, NO_MEMORY);
            break;
        }
        bytes[n++] = (char)m->frames[at].a;
    }
    while (first < n && bytes[first] != '"') first++;
    for (size_t i = 0; i < n; i++)
        if (bytes[i] == '"') last = i;
    Regex out = REGEX_EMPTY;
    for (size_t i = first; i <= last && first < n; i++)
        out = regex_concat(&m->regexes, regex_byte(&m->regexes, (unsigned char)bytes[i]), out);
    free(bytes);
    return out;
}

/* The lexeme of member i of an object with `names`, which it may not have again. */
static Regex new_name(Acceptor *m, const Object *o, size_t i, uint32_t names) {
    RegexArena *r = &m->regexes;
    Regex key = o->members[i].key;
    for (uint32_t at = names; at != 0; at = m->frames[at].parent)
        key = regex_and2(r, key, regex_not(r, name_of(m, m->frames[at].a)));
    return regex_concat(r, key, regex_concat(r, m->colon, regex_tag(r, (uint32_t)i)));
}

/* ---- Objects ---- */

/* JSON's syntax in an object or array of this depth. */
static const Punctuation *punctuation_at(const Acceptor *m, uint32_t depth) {
    return &m->punctuation[depth <= INDENTED_LEVELS ? depth : INDENTED_LEVELS + 1];
}

/* The expression of what may follow inside an object after `count` members, of which `set` are
 * named ones: `lead` and a further key, or `close` where the object may end. `names`: the set of
 * earlier names that new ones must differ from; 0: none. */
static Regex object_rest(Acceptor *m, const Object *o, uint32_t set, uint32_t count, uint32_t names,
                         Regex lead, Regex close) {
    size_t n = 0;
    Regex *items = malloc((o->n + 1) * sizeof *items), out = REGEX_NONE;
    bool *may = malloc(o->n + 1);
    if (!items || !may) {
        free(items);
        free(may);
        return acceptor_fail(m, NO_MEMORY), REGEX_NONE;
    }
    bool may_end = acceptor_members_may(m, o, set, count, may);
    for (size_t i = 0; i < o->n; i++) {
        if (!may[i]) continue;
        Regex lexeme = i < o->n_named || names == 0 ? o->lexemes[i] : new_name(m, o, i, names);
        if (names == 0 || i < o->n_named || regex_live(&m->regexes, lexeme)) items[n++] = lexeme;
    }
    out = regex_concat(&m->regexes, lead, regex_or(&m->regexes, items, n));
    if (may_end) out = regex_or2(&m->regexes, out, close);
    free(items);
    free(may);
    return out;
}

/* Between two members: what may follow. */
static void object_goes_on(Acceptor *m, const Frame *f) {
    const Object *o = &m->objects[m->nodes[f->node].a];
    uint32_t parent = f->parent, names = compares_names(m, f) ? m->frames[parent].b : 0;
    const Punctuation *p = punctuation_at(m, f->depth);
    Regex rest = object_rest(m, o, f->a, f->b >> 1, names, p->comma, p->object_close);
    add_head(m, rest, object_frame(m, f->node, f->a, f->b >> 1, false, parent));
}

/* Member `tag` of an object has begun. */
static void object_member(Acceptor *m, const Frame *f, uint32_t tag) {
    const Object *o = &m->objects[m->nodes[f->node].a];
    uint32_t count = f->b >> 1, set = f->a, parent = f->parent;
    uint32_t most = o->max != ACCEPTOR_NO_LIMIT ? o->max : o->min;
    if (count < most) count++;
    set = acceptor_members_with(m, o, set, tag);
    if (compares_names(m, f)) {
        const Frame n = m->frames[parent];
        uint32_t names = n.b;
        if (tag >= o->n_named) names = intern_frame(m, (Frame){FRAME_NAME, n.a, 0, names, 0});
        parent = count < o->min ? names_frame(m, 0, names, n.parent) : n.parent;
    }
    enter(m, o->members[tag].value, object_frame(m, f->node, set, count, true, parent));
}

/* Goes on in an object: after a member's value, at its end, or in the member that the tag names.
 */
static void object_at(Acceptor *m, const Frame *f, uint32_t tag) {
    const Object *o = &m->objects[m->nodes[f->node].a];
    if (f->b & 1)
        object_goes_on(m, f);
    else if (tag == TAG_CLOSE)
        resume(m, f->parent, REGEX_PLAIN);
    else if (tag < o->n)
        object_member(m, f, tag);
}

typedef struct NextItem {
    bool miss, hit;
} NextItem;

/* May the array's item number `count` match the `contains` schema (hit), or not (miss), so that the
 * array can still end? `hits`: items so far that matched. */
static NextItem next_item(const Acceptor *m, const Array *a, uint32_t count, uint32_t hits) {
    if (!a->first_hits) return (NextItem){.miss = count < a->most};
    if (count >= a->max) return (NextItem){.miss = false};
    AcceptorNode miss = count < a->n ? a->first[count] : a->rest;
    AcceptorNode hit = count < a->n ? a->first_hits[count] : a->rest_hits;
    return (NextItem){.miss = acceptor_productive(m, miss) &&
                              acceptor_array_can_end(m, a, count + 1, hits),
                      .hit = acceptor_productive(m, hit) && hits < a->max_hits &&
                             acceptor_array_can_end(m, a, count + 1, hits + 1)};
}

/* What may come next inside an array. An array's frame: a is the number of items (as far as it
 * matters) twice, plus 1 while an item is being read; b is the number of hits, as far as it
 * matters. */
static void array_at(Acceptor *m, const Frame *f, uint32_t tag) {
    const Array *a = &m->arrays[m->nodes[f->node].a];
    uint32_t count = f->a >> 1, hits = f->b;
    NextItem may = next_item(m, a, count, hits);
    if (f->a & 1) {
        const Punctuation *p = punctuation_at(m, f->depth);
        Regex rest = may.miss || may.hit ? p->array_next : REGEX_NONE;
        if (count >= a->min && hits >= a->min_hits)
            rest = regex_or2(&m->regexes, rest, p->array_close);
        add_head(m, rest, intern_frame(m, (Frame){f->node, count << 1, hits, f->parent, 0}));
    } else if (tag == TAG_CLOSE) {
        resume(m, f->parent, REGEX_PLAIN);
    } else {
        uint32_t most = a->first_hits ? a->max : a->most;
        uint32_t matters = most != ACCEPTOR_NO_LIMIT ? most : a->min;
        if (most == ACCEPTOR_NO_LIMIT && a->n > matters) matters = (uint32_t)a->n;
        AcceptorNode miss = count < a->n ? a->first[count] : a->rest;
        AcceptorNode hit = !may.hit       ? ACCEPTOR_NO_NODE
                           : count < a->n ? a->first_hits[count]
                                          : a->rest_hits;
        uint32_t most_hits = a->max_hits != ACCEPTOR_NO_LIMIT ? a->max_hits : a->min_hits;
        uint32_t more = hits < most_hits ? hits + 1 : hits;
        if (count < matters) count++;
        if (may.miss)
            enter(m, miss, intern_frame(m, (Frame){f->node, count << 1 | 1, hits, f->parent, 0}));
        if (may.hit)
            enter(m, hit, intern_frame(m, (Frame){f->node, count << 1 | 1, more, f->parent, 0}));
    }
}

/* Adds the heads with which a node can begin, or tasks for the nodes inside it. */
static void enter_now(Acceptor *m, AcceptorNode node, uint32_t frame) {
    const Node n = m->nodes[node];
    const Punctuation *p = punctuation_at(m, m->frames[frame].depth + 1); /* inside the node */
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
        if (o->compares) frame = names_frame(m, 0, 0, frame);
        add_head(m, object_rest(m, o, UINT32_MAX, 0, 0, p->object_open, p->object_open_empty),
                 object_frame(m, node, UINT32_MAX, 0, false, frame));
        break;
    }
    case N_ARRAY: {
        const Array *a = &m->arrays[n.a];
        NextItem may = next_item(m, a, 0, 0);
        Regex open = may.miss || may.hit ? p->array_open : REGEX_NONE;
        if (a->min == 0 && a->min_hits == 0)
            open = regex_or2(&m->regexes, open, p->array_open_empty);
        add_head(m, open, intern_frame(m, (Frame){node, 0, 0, frame, 0}));
        break;
    }
    }
}

/* Goes on in the node of a frame after one of its parts has ended: the item of a sequence, or the
 * lexeme with this tag. */
static void resume_now(Acceptor *m, uint32_t frame, uint32_t tag) {
    const Frame f = m->frames[frame];
    if (frame == 0) {
        m->accepts = true;
        return;
    }
    if (!is_node(f.node)) { /* FRAME_NAMES */
        resume(m, f.parent, tag);
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
    index_table_clear(&m->task_table);
}

static int compare_heads(const void *a, const void *b) {
    const Head *x = a, *y = b;
    if (x->frame != y->frame) return x->frame < y->frame ? -1 : 1;
    return x->regex < y->regex ? -1 : x->regex > y->regex;
}

static uint64_t hash_state(const void *acceptor, uint32_t i) {
    const Acceptor *m = acceptor;
    const State *s = &m->states[i];
    return XXH3_64bits_withSeed(m->heads + s->heads, s->n * sizeof(Head), s->accepts);
}

/* The state of the heads that were built. */
static AcceptorState intern_state(Acceptor *m) {
    size_t n = 0;
    Head *b = m->building;
    if (m->n_building > 1) qsort(b, m->n_building, sizeof *b, compare_heads);
    for (size_t i = 0; i < m->n_building; i++)
        if (n == 0 || compare_heads(&b[i], &b[n - 1]) != 0) b[n++] = b[i];
    if (n == 0 && !m->accepts) return ACCEPTOR_DEAD;
    IndexTable *table = &m->state_table;
    if (!index_table_reserve(table, hash_state, m) || !RESERVE(m, heads, n_heads, n + 1) ||
        !RESERVE(m, states, n_states, 1))
        return acceptor_fail(m, NO_MEMORY), ACCEPTOR_DEAD;
    State s = {.heads = (uint32_t)m->n_heads, .n = (uint32_t)n, .accepts = m->accepts, .run = -1};
    if (n > 0) memcpy(m->heads + m->n_heads, b, n * sizeof *b);
    m->states[m->n_states] = s;
    size_t at = index_table_first(table, hash_state(m, (uint32_t)m->n_states));
    for (; table->slots[at]; at = index_table_next(table, at)) {
        uint32_t i = table->slots[at] - 1;
        const State *o = &m->states[i];
        if (o->n == n && o->accepts == s.accepts &&
            memcmp(m->heads + o->heads, m->heads + s.heads, n * sizeof *b) == 0)
            return i;
    }
    m->n_heads += n;
    index_table_set(table, at, m->n_states);
    return (AcceptorState)m->n_states++;
}

static AcceptorState end_closure(Acceptor *m) {
    while (m->first_task < m->n_tasks && !acceptor_gave_up(m)) {
        Task t = m->tasks[m->first_task++];
        if (t.enters)
            enter_now(m, t.what, t.frame);
        else
            resume_now(m, t.frame, t.tag);
    }
    return acceptor_gave_up(m) ? ACCEPTOR_DEAD : intern_state(m);
}

/* ---- Running -------------------------------------------------------------------------------- */

static void forget_states(Acceptor *m) {
    m->n_frame_costs = 0;
    if (m->rows_capacity > KEPT_ROWS) {
        free(m->rows);
        m->rows = NULL;
        m->rows_capacity = 0;
    }
    m->n_frames = m->n_sets = m->n_states = m->n_heads = m->n_rows = 0;
    index_table_clear(&m->frame_table);
    index_table_clear(&m->set_table);
    index_table_clear(&m->state_table);
    m->start = ACCEPTOR_DEAD;
    m->epoch++;
    /* Frame 0 is the end of the text, state 0 the dead one, row 0 none. */
    intern_frame(m, (Frame){UINT32_MAX, 0, 0, 0, 0});
    if (RESERVE(m, states, n_states, 1)) m->states[m->n_states++] = (State){.run = 0};
    m->n_rows = 1;
}

Status acceptor_finish(Acceptor *m, AcceptorNode root, Error *error) {
    if (acceptor_analyse(m, error) != STATUS_OK) return STATUS_FAILED;
    if (!acceptor_productive(m, root)) return error_set(error, "no text has this shape");
    if (acceptor_left_recursive(m))
        return error_set(error, "left recursion in a grammar is not supported");
    m->root = root;
    m->mark = regex_arena_mark(&m->regexes);
    m->n_classes = m->regexes.n_classes;
    m->base_bytes = regex_arena_bytes(&m->regexes);
    forget_states(m);
    if (acceptor_start(m) == ACCEPTOR_DEAD || acceptor_gave_up(m))
        return error_set(error, "the shape cannot be enforced: %s",
                         m->failed ? m->failed : "it cannot begin");
    return STATUS_OK;
}

void acceptor_begin_work(Acceptor *m) {
    m->regexes.work = 0;
    m->regexes.most_work = m->limits.step_work;
}

AcceptorState acceptor_start(Acceptor *m) {
    if (m->start != ACCEPTOR_DEAD || acceptor_gave_up(m)) return m->start;
    begin_closure(m);
    enter(m, m->root, 0);
    return m->start = end_closure(m);
}

static AcceptorState step_new(Acceptor *m, AcceptorState state, unsigned char byte) {
    State s = m->states[state];
    begin_closure(m);
    for (size_t i = 0; i < s.n && !acceptor_gave_up(m); i++) {
        Head h = m->heads[s.heads + i];
        Regex next = regex_derive(&m->regexes, h.regex, byte);
        if (next == REGEX_NONE) continue;
        add_head(m, next, m->compares ? frame_with_byte(m, h.frame, byte) : h.frame);
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
    if (m->regexes.n_classes != m->n_classes) acceptor_fail(m, "its byte classes changed");
    if (acceptor_gave_up(m)) return ACCEPTOR_DEAD;
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
    bool allowed[256] = {false};
    for (size_t c = 0; c < m->n_classes; c++)
        allowed[c] = acceptor_step(m, state, m->regexes.byte_of[c]) != ACCEPTOR_DEAD;
    for (unsigned b = 0; b < 256; b++)
        if (allowed[m->regexes.class_of[b]]) byteset_add(&out, b, b);
    return out;
}

int acceptor_only_byte(Acceptor *m, AcceptorState state) {
    int only = -1;
    for (size_t c = 0; c < m->n_classes; c++) {
        if (acceptor_step(m, state, m->regexes.byte_of[c]) == ACCEPTOR_DEAD) continue;
        if (only >= 0) return -1;
        only = m->regexes.byte_of[c];
    }
    for (int b = only + 1; b < 256 && only >= 0; b++) /* `only` is the first byte of its class */
        if (m->regexes.class_of[b] == m->regexes.class_of[only]) return -1;
    return m->failed ? -1 : only;
}

const char *acceptor_failed(const Acceptor *m) {
    return m->failed ? m->failed : m->regexes.failed;
}

void acceptor_recover(Acceptor *m) {
    if (!acceptor_gave_up(m)) return;
    m->failed = m->regexes.failed = NULL;
    free(m->costs), free(m->cost_sums);
    m->costs = NULL, m->cost_sums = NULL;
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

size_t acceptor_memory(const Acceptor *m) {
    return m->nodes_capacity * sizeof *m->nodes + m->items_capacity * sizeof *m->items +
           m->frames_capacity * sizeof *m->frames + m->sets_capacity * sizeof *m->sets +
           m->states_capacity * sizeof *m->states + m->heads_capacity * sizeof *m->heads +
           m->rows_capacity * sizeof *m->rows + m->frame_costs_capacity * sizeof *m->frame_costs +
           (m->frame_table.size + m->set_table.size + m->state_table.size) * sizeof(uint32_t) +
           regex_arena_memory(&m->regexes);
}
