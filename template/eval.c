#include "template/eval.h"

#include "template/access.h"
#include "template/arithmetic.h"
#include "template/call.h"
#include "template/equality.h"
#include "template/print.h"

#include <string.h>

enum { MAX_OUTPUT = 32 << 20 };

typedef enum Flow { FLOW_NEXT, FLOW_BREAK, FLOW_CONTINUE } Flow;

/* The state of a template that runs. */
typedef struct Rendering {
    const Dict *inputs;
    Builder *out;     /* where statements write: the output, or a block that is being captured */
    Value block_text; /* the captured block that the filter at work filters */
} Rendering;

/* The variables of a Frame that runs. */
typedef struct Scope {
    struct Scope *parent;
    Value *slots; /* [frame->count] */
} Scope;

static Flow run_all(Machine *m, const Node *list, Scope *scope);
static Value evaluate(Machine *m, const Node *node, Scope *scope);
static Text loop_recurse(Machine *m, Loop *loop, Value iterable);

/* ---- scopes ---- */

/* The scope that lies `hops` scopes outside. */
static Scope *outer(Scope *scope, int hops) {
    while (hops-- > 0) scope = scope->parent;
    return scope;
}

static Value find_input(Machine *m, Text name) {
    const Value *input = jinja_dict_find(m, m->rendering->inputs, jinja_value_text(m, name));
    if (input) return *input;
    const Builtin *global = jinja_find_builtin(m->builtins->globals, name);
    return global ? jinja_value_function(m, missing, global) : missing;
}

/* Gives every variable except the parameters its first value. */
static void begin_scope(Machine *m, const Frame *frame, Scope *scope) {
    for (const Symbol *s = frame->symbols; s; s = s->next) {
        Value *slot = &scope->slots[s->slot];
        jinja_spend(m, 0);
        if (s->load == LOAD_INPUT)
            *slot = find_input(m, s->name);
        else if (s->load == LOAD_ALIAS)
            *slot = outer(scope, s->hops)->slots[s->outer_slot];
        else if (s->load == LOAD_UNDEFINED)
            *slot = missing;
    }
}

static Scope *new_scope(Machine *m, const Frame *frame, Scope *parent) {
    Scope *scope = NEW(m, Scope);
    *scope = (Scope){parent, NEW_ARRAY(m, (size_t)frame->count, Value)};
    begin_scope(m, frame, scope);
    return scope;
}

/* Assigns to a variable, to an attribute of a namespace, or item by item to a tuple of targets. */
static void assign(Machine *m, const Node *target, Value value, Scope *scope) {
    if (target->kind == N_NAME) {
        outer(scope, target->hops)->slots[target->slot] = value;
    } else if (target->kind == N_NSREF) {
        Value space = outer(scope, target->hops)->slots[target->slot];
        Text name = *target->value.as.text;
        if (space.type != V_NAMESPACE)
            jinja_fail(m, "cannot assign attribute on non-namespace object");
        if (name.bytes[0] == '_') {
            jinja_fail(m,
                       "Chat templates cannot store underscore-prefixed attributes on a namespace");
        }
        jinja_dict_set(m, space.as.dict, target->value, value);
    } else {
        List items = jinja_collect(m, value);
        const Node *n = target->items;
        size_t i = 0;
        for (; n && i < items.count; n = n->next) assign(m, n, items.items[i++], scope);
        if (n || i < items.count) jinja_fail(m, "cannot unpack %zu values", items.count);
    }
}

/* ---- calls ---- */

/* Adds the items of a list to the positional arguments. */
static void add_values(Machine *m, Args *args, List list) {
    Value *values = NEW_ARRAY(m, args->count + list.count, Value);
    if (args->count) memcpy(values, args->values, args->count * sizeof *values);
    if (list.count) memcpy(values + args->count, list.items, list.count * sizeof *values);
    args->values = values;
    args->count += list.count;
}

static void add_keyword(Args *args, Text name, Value value) {
    args->keywords[args->n_keywords] = name;
    args->keyword_values[args->n_keywords++] = value;
}

/* Adds the items of a dict to the keyword arguments. */
static void add_mapping(Machine *m, Args *args, const Dict *mapping) {
    Args all = *args;
    all.keywords = NEW_ARRAY(m, args->n_keywords + mapping->count, Text);
    all.keyword_values = NEW_ARRAY(m, args->n_keywords + mapping->count, Value);
    all.n_keywords = 0;
    for (size_t i = 0; i < args->n_keywords; i++) {
        add_keyword(&all, args->keywords[i], args->keyword_values[i]);
    }
    for (size_t i = 0; i < mapping->count; i++) {
        Value key = mapping->entries[i].key;
        if (key.type != V_STRING) jinja_fail(m, "keywords must be strings");
        if (jinja_find_keyword(args, *key.as.text)) jinja_fail(m, "keyword argument repeated");
        add_keyword(&all, *key.as.text, mapping->entries[i].value);
    }
    *args = all;
}

/* The arguments of a call: `items` are expressions, N_KEYWORD, N_STAR and N_STARSTAR. They outlive
 * the call, because lazy filters keep them. `caller`, unless it is V_MISSING, is the macro that a
 * call block hands over. */
static const Args *evaluate_args(Machine *m, const Node *items, Scope *scope, Value caller) {
    Args *args = NEW(m, Args);
    const Dict *mapping = NULL;
    size_t count = 0;
    for (const Node *n = items; n; n = n->next) count++;
    args->values = NEW_ARRAY(m, count, Value);
    args->keywords = NEW_ARRAY(m, count + 1, Text); /* one more for `caller` */
    args->keyword_values = NEW_ARRAY(m, count + 1, Value);
    for (const Node *n = items; n; n = n->next) {
        if (n->kind == N_KEYWORD) {
            add_keyword(args, n->text, evaluate(m, n->first, scope));
        } else if (n->kind == N_STAR) {
            add_values(m, args, jinja_collect(m, evaluate(m, n->first, scope)));
        } else if (n->kind == N_STARSTAR) {
            Value v = evaluate(m, n->first, scope);
            if (v.type != V_DICT) jinja_fail(m, "argument after ** must be a mapping");
            mapping = v.as.dict;
        } else {
            args->values[args->count++] = evaluate(m, n, scope);
        }
    }
    if (caller.type != V_MISSING) add_keyword(args, jinja_text_c(m, "caller"), caller);
    if (mapping) add_mapping(m, args, mapping);
    return args;
}

/* Runs `body` and returns its text instead of writing it. */
static Text run_captured(Machine *m, const Node *body, Scope *scope, Flow *flow) {
    Builder captured = {0}, *out = m->rendering->out;
    m->rendering->out = &captured;
    Flow f = run_all(m, body, scope);
    m->rendering->out = out;
    if (flow) *flow = f;
    return jinja_built(&captured);
}

/* The value of a keyword argument, which is marked as used; V_MISSING where the call has none. */
static Value take_keyword(const Args *args, bool *used, Text name) {
    const Value *found = jinja_find_keyword(args, name);
    if (!found || used[found - args->keyword_values]) return missing;
    used[found - args->keyword_values] = true;
    return *found;
}

/* Makes varargs and kwargs of the arguments that no parameter took. The first `taken` positional
 * and the `used` keyword arguments are taken. */
static void bind_rest(Machine *m, const Node *macro, const Args *args, bool *used, size_t taken,
                      Scope *scope) {
    Value kwargs = jinja_value_dict(m);
    for (size_t i = 0; i < args->n_keywords; i++) {
        if (used[i]) continue;
        if (!macro->uses_kwargs) jinja_fail(m, "the macro takes no such keyword argument");
        jinja_dict_append(m, kwargs.as.dict, jinja_value_text(m, args->keywords[i]),
                          args->keyword_values[i]);
    }
    if (macro->uses_kwargs) scope->slots[macro->kwargs_slot] = kwargs;
    if (taken < args->count && !macro->uses_varargs)
        jinja_fail(m, "too many arguments for the macro");
    if (macro->uses_varargs) {
        scope->slots[macro->varargs_slot] =
            jinja_value_list(m, V_TUPLE, args->values + taken, args->count - taken);
    }
}

/* Gives each parameter its argument: the positional ones in turn, then keyword arguments, which are
 * marked as used. One without an argument becomes V_MISSING. Returns how many positional arguments
 * were taken. */
static size_t bind_parameters(const Node *macro, const Args *args, bool *used, Scope *scope) {
    size_t taken = 0;
    for (const Node *p = macro->items; p; p = p->next)
        scope->slots[p->slot] =
            taken < args->count ? args->values[taken++] : take_keyword(args, used, p->text);
    return taken;
}

/* Binds `caller`, the block of a {% call %}, where the macro uses it and has no parameter of that
 * name. */
static void bind_caller(Machine *m, const Node *macro, const Args *args, bool *used, Scope *scope) {
    bool is_parameter = false;
    for (const Node *p = macro->items; p; p = p->next)
        is_parameter = is_parameter || jinja_text_is(p->text, "caller");
    if (!macro->uses_caller || is_parameter) return;
    Value v = take_keyword(args, used, jinja_text_c(m, "caller"));
    if (v.type == V_MISSING || v.type == V_NONE)
        v = jinja_value_undefined(m, "No caller defined", missing, none);
    scope->slots[macro->caller_slot] = v;
}

/* Gives parameters without an argument their default, which is evaluated in the macro's scope and
 * sees the parameters before it, or the undefined value. */
static void bind_defaults(Machine *m, const Node *macro, Scope *scope) {
    for (const Node *p = macro->items; p; p = p->next) {
        if (scope->slots[p->slot].type != V_MISSING) continue;
        scope->slots[p->slot] = p->first
                                    ? evaluate(m, p->first, scope)
                                    : jinja_value_undefined(m, "a parameter was not provided",
                                                            missing, jinja_value_text(m, p->text));
    }
}

/* Calls a macro as jinja2 does and returns its output: binds all arguments in a scope of its own,
 * then the defaults, then runs its body. */
static Value call_macro(Machine *m, const Macro *macro, const Args *args) {
    const Node *node = macro->node;
    Scope *scope = new_scope(m, node->frame, macro->scope);
    bool *used = NEW_ARRAY(m, args->n_keywords, bool); /* keyword arguments that were taken */
    size_t taken = bind_parameters(node, args, used, scope);
    bind_caller(m, node, args, used, scope);
    bind_rest(m, node, args, used, taken, scope);
    bind_defaults(m, node, scope);
    return jinja_value_text(m, run_captured(m, node->body, scope, NULL));
}

/* Calls a function, a macro, the `loop` of a recursive loop, or a joiner; fails for other
 * values. */
static Value call_value(Machine *m, Value callee, const Args *args) {
    Value result;
    jinja_enter(m);
    switch (callee.type) {
    case V_FUNCTION:
        result = jinja_call_builtin(m, callee.as.function->builtin, callee.as.function->self, args);
        break;
    case V_MACRO:
        result = call_macro(m, callee.as.macro, args);
        break;
    case V_LOOP:
        if (args->count != 1 || args->n_keywords) jinja_fail(m, "loop() takes one argument");
        result = jinja_value_text(m, loop_recurse(m, callee.as.loop, args->values[0]));
        break;
    case V_JOINER:
        if (args->count || args->n_keywords) jinja_fail(m, "a joiner takes no arguments");
        result =
            callee.as.joiner->used ? callee.as.joiner->separator : jinja_value_text(m, (Text){0});
        callee.as.joiner->used = true;
        break;
    case V_UNDEFINED:
        jinja_fail_undefined(m, callee);
    default:
        jinja_fail(m, "'%s' object is not callable", jinja_type_name(callee));
    }
    jinja_leave(m);
    return result;
}

static Value new_macro(Machine *m, const Node *node, Scope *scope) {
    Macro *macro = NEW(m, Macro);
    *macro = (Macro){node->kind == N_MACRO ? node->text : (Text){0}, node, scope};
    return (Value){.type = V_MACRO, .from_template = FROM_TEMPLATE, .as.macro = macro};
}

/* ---- expressions ---- */

static Value evaluate_items(Machine *m, const Node *node, Scope *scope) {
    size_t count = 0;
    for (const Node *n = node->items; n; n = n->next) count++;
    Value *items = NEW_ARRAY(m, count, Value);
    count = 0;
    for (const Node *n = node->items; n; n = n->next) items[count++] = evaluate(m, n, scope);
    return jinja_value_list(m, node->kind == N_LIST ? V_LIST : V_TUPLE, items, count);
}

static Value evaluate_dict(Machine *m, const Node *node, Scope *scope) {
    Value dict = jinja_value_dict(m);
    for (const Node *n = node->items; n; n = n->next->next) {
        Value key = evaluate(m, n, scope);
        jinja_dict_set(m, dict.as.dict, key, evaluate(m, n->next, scope));
    }
    return dict;
}

static Value evaluate_unary(Machine *m, const Node *node, Scope *scope) {
    Value v = evaluate(m, node->first, scope);
    if (node->op == OP_NOT) return jinja_value_bool(!jinja_truth(m, v));
    if (node->op == OP_SUBTRACT) return jinja_negate(m, v);
    if (v.type == V_UNDEFINED) jinja_fail_undefined(m, v);
    if (!jinja_is_number(v))
        jinja_fail(m, "bad operand type for unary +: '%s'", jinja_type_name(v));
    if (v.type == V_BOOL) v.type = V_INT;
    return v;
}

/* a < b < c is a < b and b < c, with b evaluated once. */
static Value evaluate_compare(Machine *m, const Node *node, Scope *scope) {
    Value left = evaluate(m, node->first, scope);
    for (const Node *n = node->items; n; n = n->next) {
        Value right = evaluate(m, n->first, scope);
        if (!jinja_holds(m, (Operator)n->op, left, right)) return jinja_value_bool(false);
        left = right;
    }
    return jinja_value_bool(true);
}

static Value evaluate_condition(Machine *m, const Node *node, Scope *scope) {
    if (jinja_truth(m, evaluate(m, node->second, scope))) return evaluate(m, node->first, scope);
    if (node->third) return evaluate(m, node->third, scope);
    return jinja_value_undefined(
        m,
        "the inline if-expression evaluated to false and no else section was "
        "defined.",
        missing, none);
}

static Value evaluate_concat(Machine *m, const Node *node, Scope *scope) {
    Builder b = {0};
    for (const Node *n = node->items; n; n = n->next) jinja_build_str(m, &b, evaluate(m, n, scope));
    return jinja_value_text(m, jinja_built(&b));
}

static Value evaluate_slice(Machine *m, const Node *node, Scope *scope) {
    Value object = evaluate(m, node->first, scope), bounds[3];
    const Node *n = node->items;
    for (int i = 0; i < 3; i++, n = n->next) bounds[i] = evaluate(m, n, scope);
    return jinja_get_slice(m, object, bounds[0], bounds[1], bounds[2]);
}

static Value evaluate_filter_or_test(Machine *m, const Node *node, Scope *scope) {
    if (!node->builtin) {
        jinja_fail_unknown(m, node->kind == N_FILTER ? "filter" : "test", node->text);
    }
    Value self = node->first ? evaluate(m, node->first, scope) : m->rendering->block_text;
    return jinja_call_builtin(m, node->builtin, self,
                              evaluate_args(m, node->items, scope, missing));
}

static Value evaluate_name(Machine *m, const Node *node, Scope *scope) {
    Value v = outer(scope, node->hops)->slots[node->slot];
    if (v.type != V_MISSING) return v;
    return jinja_value_undefined(m, NULL, missing, jinja_value_text(m, node->text));
}

static Value evaluate_logic(Machine *m, const Node *node, Scope *scope) {
    Value left = evaluate(m, node->first, scope);
    return jinja_truth(m, left) == (node->kind == N_AND) ? evaluate(m, node->second, scope) : left;
}

static Value evaluate_binary(Machine *m, const Node *node, Scope *scope) {
    Value left = evaluate(m, node->first, scope);
    return jinja_arithmetic(m, (Operator)node->op, left, evaluate(m, node->second, scope));
}

static Value evaluate_access(Machine *m, const Node *node, Scope *scope) {
    Value object = evaluate(m, node->first, scope);
    if (node->kind == N_ATTR) return jinja_get_attr(m, object, node->text);
    return jinja_get_item(m, object, evaluate(m, node->second, scope));
}

static Value evaluate_call(Machine *m, const Node *node, Scope *scope, Value caller) {
    Value callee = evaluate(m, node->first, scope);
    return call_value(m, callee, evaluate_args(m, node->items, scope, caller));
}

/* Evaluates one expression by the kind of its node. Callers use evaluate(), which limits the
 * depth. */
static Value evaluate_node(Machine *m, const Node *node, Scope *scope) {
    switch (node->kind) {
    case N_CONST:
        return node->value;
    case N_NAME:
        return evaluate_name(m, node, scope);
    case N_LIST:
    case N_TUPLE:
        return evaluate_items(m, node, scope);
    case N_DICT:
        return evaluate_dict(m, node, scope);
    case N_UNARY:
        return evaluate_unary(m, node, scope);
    case N_BINARY:
        return evaluate_binary(m, node, scope);
    case N_AND:
    case N_OR:
        return evaluate_logic(m, node, scope);
    case N_CONCAT:
        return evaluate_concat(m, node, scope);
    case N_COMPARE:
        return evaluate_compare(m, node, scope);
    case N_COND:
        return evaluate_condition(m, node, scope);
    case N_ATTR:
    case N_ITEM:
        return evaluate_access(m, node, scope);
    case N_SLICE:
        return evaluate_slice(m, node, scope);
    case N_CALL:
        return evaluate_call(m, node, scope, missing);
    case N_FILTER:
    case N_TEST:
        return evaluate_filter_or_test(m, node, scope);
    default:
        jinja_fail(m, "not an expression");
    }
}

static Value evaluate(Machine *m, const Node *node, Scope *scope) {
    jinja_enter(m);
    Value v = evaluate_node(m, node, scope);
    jinja_leave(m);
    return v;
}

/* ---- loops ---- */

/* for ... if: the next item that passes. The condition runs when the loop asks for the item, as in
 * jinja2's generator. */
static bool next_passing(Machine *m, Iter *it, Value *item) {
    while (jinja_next_item(m, it->inner, item)) {
        assign(m, it->node->first, *item, it->scope);
        if (jinja_truth(m, evaluate(m, it->node->third, it->scope))) return true;
    }
    return false;
}

static Iter *iterate_passing(Machine *m, const Node *node, Value iterable, Scope *scope) {
    Iter *it = NEW(m, Iter);
    it->next = next_passing;
    it->inner = jinja_iterate(m, iterable);
    it->node = node;
    it->scope = new_scope(m, node->test_frame, scope);
    return it;
}

/* Runs a for loop over the iterable; depth0 counts the recursive loops around it. Each round begins
 * its variables anew. */
static Flow run_for(Machine *m, const Node *node, Scope *outside, Value iterable, int64_t depth0) {
    Loop *loop = NEW(m, Loop);
    *loop = (Loop){.index0 = -1, .length = -1, .depth0 = depth0, .scope = outside};
    loop->node = node->recursive ? node : NULL;
    loop->iter =
        node->third ? iterate_passing(m, node, iterable, outside) : jinja_iterate(m, iterable);
    loop->iterable = node->third ? jinja_value_iterator(loop->iter) : iterable;
    Scope *scope = new_scope(m, node->frame, outside);
    bool completed = false;
    while (jinja_loop_advance(m, loop)) {
        begin_scope(m, node->frame, scope);
        scope->slots[0] = (Value){.type = V_LOOP, .from_template = FROM_TEMPLATE, .as.loop = loop};
        assign(m, node->first, loop->current, scope);
        Flow flow = run_all(m, node->body, scope);
        if (flow == FLOW_BREAK) break;
        /* jinja2 runs `else` unless a round reached the end of the body; `continue` does not. */
        if (flow == FLOW_NEXT) completed = true;
    }
    if (completed || !node->orelse) return FLOW_NEXT;
    return run_all(m, node->orelse, new_scope(m, node->else_frame, outside));
}

/* loop(iterable): runs the body of a recursive loop for other items. */
static Text loop_recurse(Machine *m, Loop *loop, Value iterable) {
    if (!loop->node)
        jinja_fail(m, "The loop must have the 'recursive' marker to be called recursively.");
    Builder captured = {0}, *out = m->rendering->out;
    m->rendering->out = &captured;
    run_for(m, loop->node, loop->scope, iterable, loop->depth0 + 1);
    m->rendering->out = out;
    return jinja_built(&captured);
}

/* ---- statements ---- */

/* Captures the text of a block and filters it, if the block has a filter. */
static Flow run_block(Machine *m, const Node *node, Scope *scope, Value *result) {
    Flow flow;
    Scope *inside = new_scope(m, node->frame, scope);
    *result = jinja_value_text(m, run_captured(m, node->body, inside, &flow));
    if (flow != FLOW_NEXT || !node->second) return flow;
    m->rendering->block_text = *result;
    *result = evaluate(m, node->second, inside);
    return FLOW_NEXT;
}

/* Writes the value of a call block or a filter block, which must be a string. */
static void write_text(Machine *m, Value v) {
    if (v.type != V_STRING)
        jinja_fail(m, "the value of a block must be a string, not '%s'", jinja_type_name(v));
    jinja_build(m, m->rendering->out, *v.as.text);
}

static Flow run_with(Machine *m, const Node *node, Scope *scope) {
    Scope *inside = new_scope(m, node->frame, scope);
    for (const Node *n = node->items; n; n = n->next) {
        assign(m, n->first, evaluate(m, n->second, scope), inside);
    }
    return run_all(m, node->body, inside);
}

/* Runs one statement, which writes to m->rendering->out; returns whether the loop around it breaks,
 * continues, or goes on. */
static Flow run_statement(Machine *m, const Node *node, Scope *scope) {
    Flow flow;
    Value v;
    m->line = node->line;
    switch (node->kind) {
    case N_DATA:
        jinja_build(m, m->rendering->out, *node->value.as.text);
        return FLOW_NEXT;
    case N_PRINT:
        for (const Node *n = node->items; n; n = n->next)
            jinja_build_str(m, m->rendering->out, evaluate(m, n, scope));
        return FLOW_NEXT;
    case N_FOR:
        return run_for(m, node, scope, evaluate(m, node->second, scope), 0);
    case N_IF:
        return run_all(
            m, jinja_truth(m, evaluate(m, node->first, scope)) ? node->body : node->orelse, scope);
    case N_SET:
        assign(m, node->first, evaluate(m, node->second, scope), scope);
        return FLOW_NEXT;
    case N_SET_BLOCK:
        flow = run_block(m, node, scope, &v);
        if (flow == FLOW_NEXT) assign(m, node->first, v, scope);
        return flow;
    case N_FILTER_BLOCK:
        flow = run_block(m, node, scope, &v);
        if (flow == FLOW_NEXT) write_text(m, v);
        return flow;
    case N_MACRO:
        outer(scope, node->hops)->slots[node->slot] = new_macro(m, node, scope);
        return FLOW_NEXT;
    case N_CALL_BLOCK:
        write_text(m, evaluate_call(m, node->first, scope, new_macro(m, node, scope)));
        return FLOW_NEXT;
    case N_WITH:
        return run_with(m, node, scope);
    case N_GENERATION:
        return run_all(m, node->body, new_scope(m, node->frame, scope));
    case N_BREAK:
        return FLOW_BREAK;
    case N_CONTINUE:
        return FLOW_CONTINUE;
    default:
        jinja_fail(m, "not a statement");
    }
}

static Flow run_all(Machine *m, const Node *list, Scope *scope) {
    Flow flow = FLOW_NEXT;
    jinja_enter(m);
    for (; list && flow == FLOW_NEXT; list = list->next) {
        flow = run_statement(m, list, scope);
        if (m->rendering->out->length > MAX_OUTPUT)
            jinja_fail(m, "the template's output is too long");
    }
    jinja_leave(m);
    return flow;
}

void jinja_run(Machine *m, const Node *statements, const Frame *frame, const Dict *inputs,
               Builder *out) {
    Rendering rendering = {.inputs = inputs, .out = out};
    m->rendering = &rendering;
    run_all(m, statements, new_scope(m, frame, NULL));
    m->rendering = NULL;
}
