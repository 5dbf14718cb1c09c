/* jinja2 decides which variable a name means before the template runs (idtracking.py, compiler.py),
 * with consequences that templates rely on: a loop's assignments vanish with each round, an `if`
 * makes no scope, and a variable that a scope assigns anywhere belongs to that scope from its
 * beginning, undefined until the assignment. Each scope is a Frame of numbered slots; a name
 * becomes the number of frames to go out and the slot there. */
#include "template/scope.h"

#include "template/call.h"

typedef struct Binder {
    Machine *m;
    Frame *frame;
    bool in_branch; /* of an if: an unknown filter is an error only if it runs */
    bool in_loop;   /* break and continue are allowed */
} Binder;

static void bind(Binder b, Node *node);

static Symbol *find_own(const Frame *frame, Text name) {
    Symbol *s = frame->symbols;
    while (s && !jinja_text_equal(s->name, name)) s = s->next;
    return s;
}

static Symbol *find_symbol(const Frame *frame, Text name, int *hops) {
    *hops = 0;
    for (; frame; frame = frame->parent, ++*hops) {
        Symbol *s = find_own(frame, name);
        if (s) return s;
    }
    return NULL;
}

static Symbol *add_symbol(Machine *m, Frame *frame, Text name, Load load) {
    Symbol *s = find_own(frame, name);
    if (!s) {
        s = NEW(m, Symbol);
        *s = (Symbol){.name = name, .slot = frame->count++, .next = frame->symbols};
        frame->symbols = s;
    }
    s->load = load;
    return s;
}

/* ---- first pass over a scope: which names does it use and assign? ---- */

static void note_load(Machine *m, Frame *frame, Text name) {
    int hops;
    if (!find_symbol(frame, name, &hops)) add_symbol(m, frame, name, LOAD_INPUT);
}

/* `maybe`: the assignment stands in a branch that may not be taken. A name that no outer scope has
 * then still means the input variable until it is assigned. */
static void note_store(Machine *m, Frame *frame, Text name, bool maybe) {
    int hops;
    if (find_own(frame, name)) return;
    Symbol *outer = find_symbol(frame->parent, name, &hops);
    Symbol *s = add_symbol(m, frame, name, maybe ? LOAD_INPUT : LOAD_UNDEFINED);
    if (outer) s->load = LOAD_ALIAS, s->hops = hops + 1, s->outer_slot = outer->slot;
}

static void note(Machine *m, Frame *frame, const Node *node, bool maybe);

static void note_all(Machine *m, Frame *frame, const Node *list, bool maybe) {
    for (; list; list = list->next) note(m, frame, list, maybe);
}

/* Notes the names of a node. Of a statement that opens a scope, only the parts that are evaluated
 * outside that scope count. */
static void note(Machine *m, Frame *frame, const Node *node, bool maybe) {
    if (!node) return;
    jinja_enter(m);
    switch (node->kind) {
    case N_NAME:
        if (node->store)
            note_store(m, frame, node->text, maybe);
        else
            note_load(m, frame, node->text);
        break;
    case N_NSREF:
        note_load(m, frame, node->text);
        break;
    case N_MACRO:
        note_store(m, frame, node->text, maybe);
        break;
    case N_CALL_BLOCK:
    case N_SET_BLOCK:
        note(m, frame, node->first, maybe);
        break;
    case N_FOR:
    case N_FILTER_BLOCK:
        note(m, frame, node->second, maybe);
        break;
    case N_GENERATION:
        break;
    case N_WITH:
        for (const Node *n = node->items; n; n = n->next) note(m, frame, n->second, maybe);
        break;
    case N_SET:
        note(m, frame, node->second, maybe);
        note(m, frame, node->first, maybe);
        break;
    case N_IF:
        note(m, frame, node->first, maybe);
        note_all(m, frame, node->body, true);
        note_all(m, frame, node->orelse, true);
        break;
    default:
        note(m, frame, node->first, maybe);
        note(m, frame, node->second, maybe);
        note(m, frame, node->third, maybe);
        note_all(m, frame, node->items, maybe);
    }
    jinja_leave(m);
}

static Frame *new_frame(Machine *m, Frame *parent) {
    Frame *frame = NEW(m, Frame);
    frame->parent = parent;
    return frame;
}

static void add_targets(Machine *m, Frame *frame, const Node *target) {
    if (target->kind == N_NAME) add_symbol(m, frame, target->text, LOAD_PARAMETER);
    for (const Node *n = target->items; n; n = n->next) add_targets(m, frame, n);
}

/* ---- questions about a whole subtree ---- */

typedef struct Search {
    Machine *m;
    const char *name;
    bool stores; /* search for an assignment; else for a read that no assignment precedes */
    bool done, found;
} Search;

/* Looks in the order of evaluation for the first assignment to the name or, without `stores`, for
 * its first use, which counts as found if it is a read. */
static void search(Search *s, const Node *node) {
    if (!node || s->done) return;
    jinja_enter(s->m);
    if (node->kind == N_NAME && jinja_text_is(node->text, s->name) && (!s->stores || node->store)) {
        s->done = true;
        s->found = node->store == s->stores;
    }
    search(s, node->first);
    search(s, node->second);
    search(s, node->third);
    for (const Node *n = node->items; n; n = n->next) search(s, n);
    for (const Node *n = node->body; n; n = n->next) search(s, n);
    for (const Node *n = node->orelse; n; n = n->next) search(s, n);
    jinja_leave(s->m);
}

static bool body_reads(Machine *m, const Node *node, const char *name) {
    Search s = {.m = m, .name = name};
    for (const Node *n = node->body; n; n = n->next) search(&s, n);
    return s.found;
}

/* ---- second pass: names to slots ---- */

static void bind_all(Binder b, Node *list) {
    for (; list; list = list->next) bind(b, list);
}

static void bind_name(Binder b, Node *node) {
    Symbol *s = find_symbol(b.frame, node->text, &node->hops);
    if (!s) jinja_fail(b.m, "the name cannot be resolved");
    node->slot = s->slot;
}

/* Notes the names of `list` in `frame`, then binds them. */
static void bind_body(Binder b, Frame *frame, Node *list, bool in_loop) {
    note_all(b.m, frame, list, false);
    bind_all((Binder){b.m, frame, false, in_loop}, list);
}

/* Binds a for loop, whose body, condition and `else` have a frame each. What is iterated over is
 * evaluated outside of them. */
static void bind_for(Binder b, Node *node) {
    Search assigns_loop = {.m = b.m, .name = "loop", .stores = true};
    search(&assigns_loop, node);
    if (assigns_loop.found)
        jinja_fail(b.m, "Can't assign to special loop variable in for-loop target");
    bind(b, node->second);

    node->frame = new_frame(b.m, b.frame);
    add_symbol(b.m, node->frame, jinja_text_c(b.m, "loop"),
               LOAD_PARAMETER); /* slot 0: eval.c relies on it */
    add_targets(b.m, node->frame, node->first);
    bind((Binder){b.m, node->frame, false, true}, node->first);
    bind_body(b, node->frame, node->body, true);

    if (node->third) { /* the condition sees the loop's targets, but not `loop` */
        node->test_frame = new_frame(b.m, b.frame);
        add_symbol(b.m, node->test_frame, (Text){0}, LOAD_PARAMETER);
        add_targets(b.m, node->test_frame, node->first);
        bind_body(b, node->test_frame, node->third, false);
    }
    node->else_frame = new_frame(b.m, b.frame);
    bind_body(b, node->else_frame, node->orelse, b.in_loop && !node->recursive);
}

/* Binds a macro or the body of a {% call %}, as jinja2's macro_body does: a frame with a slot for
 * each parameter, then for each of caller, kwargs and varargs that the body reads. Defaults of
 * parameters are evaluated in the macro's frame. */
static void bind_macro(Binder b, Node *node) {
    static const char *const special[] = {"caller", "kwargs", "varargs"};
    bool *uses[] = {&node->uses_caller, &node->uses_kwargs, &node->uses_varargs};
    int *slots[] = {&node->caller_slot, &node->kwargs_slot, &node->varargs_slot};
    Frame *frame = node->frame = new_frame(b.m, b.frame);
    for (Node *n = node->items; n; n = n->next) {
        n->slot = add_symbol(b.m, frame, n->text, LOAD_PARAMETER)->slot;
    }
    for (int i = 0; i < 3; i++) {
        *uses[i] = body_reads(b.m, node, special[i]);
        Symbol *parameter = find_own(frame, jinja_text_c(b.m, special[i]));
        if (!*uses[i]) continue;
        if (!parameter)
            parameter = add_symbol(b.m, frame, jinja_text_c(b.m, special[i]), LOAD_PARAMETER);
        else if (i > 0)
            *uses[i] = false; /* an ordinary parameter; `caller` is special also as one */
        *slots[i] = parameter->slot;
    }
    for (Node *n = node->items; n; n = n->next) {
        if (node->uses_caller && jinja_text_is(n->text, "caller") && !n->first) {
            jinja_fail(b.m,
                       "the special \"caller\" argument must be omitted or be given a default");
        }
        note(b.m, frame, n->first, false);
    }
    note_all(b.m, frame, node->body, false);
    Binder inside = {b.m, frame, false, false};
    for (Node *n = node->items; n; n = n->next) bind(inside, n->first);
    bind_all(inside, node->body);
}

/* Finds the function of a filter or a test, then binds its arguments. One that does not exist fails
 * at once, but inside of an if only when it runs. */
static void bind_builtin(Binder b, Node *node) {
    bool is_filter = node->kind == N_FILTER;
    node->builtin =
        jinja_find_builtin(is_filter ? b.m->builtins->filters : b.m->builtins->tests, node->text);
    if (!node->builtin && !b.in_branch) {
        jinja_fail_unknown(b.m, is_filter ? "filter" : "test", node->text);
    }
    bind(b, node->first);
    bind_all(b, node->items);
}

/* Binds {% with target = value, ... %}: values are evaluated outside the new frame, so that they
 * see none of the targets. */
static void bind_with(Binder b, Node *node) {
    node->frame = new_frame(b.m, b.frame);
    for (Node *n = node->items; n; n = n->next) bind(b, n->second);
    for (Node *n = node->items; n; n = n->next) add_targets(b.m, node->frame, n->first);
    for (Node *n = node->items; n; n = n->next) {
        bind((Binder){b.m, node->frame, false, false}, n->first);
    }
    bind_body(b, node->frame, node->body, b.in_loop);
}

/* {% set x | filter %} ... and {% filter name %} ... */
static void bind_captured(Binder b, Node *node) {
    bind(b, node->first);
    node->frame = new_frame(b.m, b.frame);
    note(b.m, node->frame, node->second, false);
    bind_body(b, node->frame, node->body, b.in_loop);
    bind((Binder){b.m, node->frame, false, false}, node->second);
}

/* Binds the names in the parts that every node may have. */
static void bind_parts(Binder b, Node *node) {
    bind(b, node->first);
    bind(b, node->second);
    bind(b, node->third);
    bind_all(b, node->items);
}

static void bind_if(Binder b, Node *node) {
    b.in_branch = true;
    bind_parts(b, node);
    bind_all(b, node->body);
    bind_all(b, node->orelse);
}

/* Resolves the names in a node and below it to frames and slots, looks up its filters and tests,
 * and refuses `break` and `continue` outside of loops. */
static void bind(Binder b, Node *node) {
    if (!node) return;
    jinja_enter(b.m);
    b.m->line = node->line;
    switch (node->kind) {
    case N_NAME:
    case N_NSREF:
        bind_name(b, node);
        break;
    case N_FILTER:
    case N_TEST:
        bind_builtin(b, node);
        break;
    case N_FOR:
        bind_for(b, node);
        break;
    case N_MACRO:
        bind_name(b, node);
        bind_macro(b, node);
        break;
    case N_CALL_BLOCK:
        bind_macro(b, node);
        bind(b, node->first);
        break;
    case N_WITH:
        bind_with(b, node);
        break;
    case N_IF:
    case N_COND:
        bind_if(b, node);
        break;
    case N_SET_BLOCK:
    case N_FILTER_BLOCK:
        bind_captured(b, node);
        break;
    case N_GENERATION: /* jinja2 makes a macro of it, so that a loop around it cannot be left */
        node->frame = new_frame(b.m, b.frame);
        bind_body(b, node->frame, node->body, false);
        break;
    case N_BREAK:
    case N_CONTINUE:
        if (!b.in_loop) jinja_fail(b.m, "break or continue outside a loop");
        break;
    default:
        bind_parts(b, node);
    }
    jinja_leave(b.m);
}

Frame *jinja_bind_names(Machine *m, Node *statements) {
    Frame *frame = new_frame(m, NULL);
    bind_body((Binder){.m = m}, frame, statements, false);
    return frame;
}
