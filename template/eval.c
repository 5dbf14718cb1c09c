/* Running the tree: statements write to m->out, expressions give values. */
#include "template/template.h"

#include <stdio.h>
#include <string.h>

typedef enum Flow { FLOW_NEXT, FLOW_BREAK, FLOW_CONTINUE } Flow;

static const Value none = {.type = V_NONE, .from_template = FROM_TEMPLATE};
static const Value missing = {.type = V_MISSING};

static Flow run_all(Machine *m, const Node *list, Scope *scope);

/* ---- scopes ---- */

static Scope *outer(Scope *scope, int hops) {
    while (hops-- > 0) scope = scope->parent;
    return scope;
}

static Value find_input(Machine *m, Text name) {
    Value *input = dict_find(m, m->inputs, value_text(m, name));
    if (input) return *input;
    const Builtin *global = find_global(name);
    if (!global) return missing;
    Function *f = NEW(m, Function);
    *f = (Function){missing, global};
    return (Value){.type = V_FUNCTION, .from_template = FROM_TEMPLATE, .as.function = f};
}

/* Gives every variable but the parameters its first value. */
static void begin_scope(Machine *m, const Frame *frame, Scope *scope) {
    for (const Symbol *s = frame->symbols; s; s = s->next) {
        Value *slot = &scope->slots[s->slot];
        spend(m, 0);
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

static void assign(Machine *m, const Node *target, Value value, Scope *scope) {
    if (target->kind == N_NAME) {
        outer(scope, target->hops)->slots[target->slot] = value;
    } else if (target->kind == N_NSREF) {
        Value space = outer(scope, target->hops)->slots[target->slot];
        Text name = *target->value.as.text;
        if (space.type != V_NAMESPACE) fail(m, "cannot assign attribute on non-namespace object");
        if (name.bytes[0] == '_') {
            fail(m, "Chat templates cannot store underscore-prefixed attributes on a namespace");
        }
        dict_set(m, space.as.dict, target->value, value);
    } else {
        List items = collect(m, value);
        const Node *n = target->items;
        size_t i = 0;
        for (; n && i < items.count; n = n->next) assign(m, n, items.items[i++], scope);
        if (n || i < items.count) fail(m, "cannot unpack %zu values", items.count);
    }
}

/* ---- calls ---- */

/* Arguments outlive the call: lazy filters keep them. `caller` is V_MISSING or an extra one. */
static const Args *evaluate_args(Machine *m, const Node *items, Scope *scope, Value caller) {
    Args *args = NEW(m, Args);
    size_t capacity = 0, n_keywords = caller.type != V_MISSING;
    for (const Node *n = items; n; n = n->next) {
        if (n->kind == N_KEYWORD)
            n_keywords++;
        else
            capacity++;
    }
    args->values = NEW_ARRAY(m, capacity, Value);
    args->keywords = NEW_ARRAY(m, n_keywords, Text);
    args->keyword_values = NEW_ARRAY(m, n_keywords, Value);
    Dict *more = NULL;
    for (const Node *n = items; n; n = n->next) {
        if (n->kind == N_KEYWORD) {
            args->keywords[args->n_keywords] = n->text;
            args->keyword_values[args->n_keywords++] = evaluate(m, n->first, scope);
        } else if (n->kind == N_STAR) {
            List list = collect(m, evaluate(m, n->first, scope));
            Value *values = NEW_ARRAY(m, args->count + list.count, Value);
            if (args->count) memcpy(values, args->values, args->count * sizeof *values);
            if (list.count) memcpy(values + args->count, list.items, list.count * sizeof *values);
            args->values = values;
            args->count += list.count;
        } else if (n->kind == N_STARSTAR) {
            Value v = evaluate(m, n->first, scope);
            if (v.type != V_DICT) fail(m, "argument after ** must be a mapping");
            more = v.as.dict;
        } else {
            args->values[args->count++] = evaluate(m, n, scope);
        }
    }
    if (caller.type != V_MISSING) {
        args->keywords[args->n_keywords] = text_c(m, "caller");
        args->keyword_values[args->n_keywords++] = caller;
    }
    if (!more) return args;
    Args all = {.keywords = NEW_ARRAY(m, n_keywords + more->count, Text),
                .keyword_values = NEW_ARRAY(m, n_keywords + more->count, Value)};
    for (size_t i = 0; i < n_keywords + more->count; i++) {
        bool named = i < n_keywords;
        Value key = named ? none : more->entries[i - n_keywords].key;
        if (!named && key.type != V_STRING) fail(m, "keywords must be strings");
        all.keywords[i] = named ? args->keywords[i] : *key.as.text;
        all.keyword_values[i] =
            named ? args->keyword_values[i] : more->entries[i - n_keywords].value;
        for (size_t k = 0; !named && k < n_keywords; k++) {
            if (text_equal(all.keywords[k], all.keywords[i])) fail(m, "keyword argument repeated");
        }
    }
    args->keywords = all.keywords, args->keyword_values = all.keyword_values;
    args->n_keywords = n_keywords + more->count;
    return args;
}

static Text run_captured(Machine *m, const Node *body, Scope *scope, Flow *flow) {
    Builder captured = {0}, *out = m->out;
    m->out = &captured;
    Flow f = run_all(m, body, scope);
    m->out = out;
    if (flow) *flow = f;
    return built(&captured);
}

/* Takes the value that a keyword argument gives, and marks it as used. */
static Value take_keyword(const Args *args, bool *used, Text name) {
    for (size_t i = 0; i < args->n_keywords; i++) {
        if (used[i] || !text_equal(args->keywords[i], name)) continue;
        used[i] = true;
        return args->keyword_values[i];
    }
    return missing;
}

/* What is left of the arguments once the parameters have theirs: varargs and kwargs. */
static void bind_rest(Machine *m, const Node *macro, const Args *args, bool *used, size_t taken,
                      Scope *scope) {
    Value kwargs = value_dict(m);
    for (size_t i = 0; i < args->n_keywords; i++) {
        if (used[i]) continue;
        if (!macro->uses_kwargs) fail(m, "the macro takes no such keyword argument");
        dict_append(m, kwargs.as.dict, value_text(m, args->keywords[i]), args->keyword_values[i]);
    }
    if (macro->uses_kwargs) scope->slots[macro->kwargs_slot] = kwargs;
    if (taken < args->count && !macro->uses_varargs) fail(m, "the macro takes fewer arguments");
    if (macro->uses_varargs) {
        scope->slots[macro->varargs_slot] =
            value_list(m, V_TUPLE, args->values + taken, args->count - taken);
    }
}

static Value call_macro(Machine *m, const Macro *macro, const Args *args) {
    const Node *node = macro->node;
    Scope *scope = new_scope(m, node->frame, macro->scope);
    bool *used = NEW_ARRAY(m, args->n_keywords, bool), has_caller = false;
    size_t taken = 0;
    for (const Node *p = node->items; p; p = p->next) {
        Value v = taken < args->count ? args->values[taken++] : take_keyword(args, used, p->text);
        scope->slots[p->slot] = v;
        has_caller = has_caller || text_is(p->text, "caller");
    }
    if (node->uses_caller && !has_caller) {
        Value v = take_keyword(args, used, text_c(m, "caller"));
        if (v.type == V_MISSING || v.type == V_NONE) {
            v = value_undefined(m, "No caller defined", missing, none);
        }
        scope->slots[node->caller_slot] = v;
    }
    bind_rest(m, node, args, used, taken, scope);
    for (const Node *p = node->items; p; p = p->next) {
        if (scope->slots[p->slot].type != V_MISSING) continue;
        scope->slots[p->slot] = p->first ? evaluate(m, p->first, scope)
                                         : value_undefined(m, "a parameter was not provided",
                                                           missing, value_text(m, p->text));
    }
    return value_text(m, run_captured(m, node->body, scope, NULL));
}

Value call_value(Machine *m, Value callee, const Args *args) {
    Value result;
    enter(m);
    switch (callee.type) {
    case V_FUNCTION:
        result = call_builtin(m, callee.as.function->builtin, callee.as.function->self, args);
        break;
    case V_MACRO:
        result = call_macro(m, callee.as.macro, args);
        break;
    case V_LOOP:
        if (args->count != 1 || args->n_keywords) fail(m, "loop() takes one argument");
        result = value_text(m, loop_recurse(m, callee.as.loop, args->values[0]));
        break;
    case V_JOINER:
        if (args->count || args->n_keywords) fail(m, "a joiner takes no arguments");
        result = callee.as.joiner->used ? callee.as.joiner->separator : value_text(m, (Text){0});
        callee.as.joiner->used = true;
        break;
    case V_UNDEFINED:
        fail_undefined(m, callee);
    default:
        fail(m, "'%s' object is not callable", type_name(callee));
    }
    leave(m);
    return result;
}

static Value new_macro(Machine *m, const Node *node, Scope *scope) {
    Macro *macro = NEW(m, Macro);
    *macro = (Macro){node, scope};
    return (Value){.type = V_MACRO, .from_template = FROM_TEMPLATE, .as.macro = macro};
}

/* ---- expressions ---- */

static Value evaluate_items(Machine *m, const Node *node, Scope *scope) {
    size_t count = 0;
    for (const Node *n = node->items; n; n = n->next) count++;
    Value *items = NEW_ARRAY(m, count, Value);
    count = 0;
    for (const Node *n = node->items; n; n = n->next) items[count++] = evaluate(m, n, scope);
    return value_list(m, node->kind == N_LIST ? V_LIST : V_TUPLE, items, count);
}

static Value evaluate_dict(Machine *m, const Node *node, Scope *scope) {
    Value dict = value_dict(m);
    for (const Node *n = node->items; n; n = n->next->next) {
        Value key = evaluate(m, n, scope);
        dict_set(m, dict.as.dict, key, evaluate(m, n->next, scope));
    }
    return dict;
}

static Value evaluate_unary(Machine *m, const Node *node, Scope *scope) {
    Value v = evaluate(m, node->first, scope);
    if (node->op == 'n') return value_bool(!truth(m, v));
    if (node->op == '-') return negate(m, v);
    if (v.type == V_UNDEFINED) fail_undefined(m, v);
    if (!is_number(v)) fail(m, "bad operand type for unary +: '%s'", type_name(v));
    if (v.type == V_BOOL) v.type = V_INT;
    return v;
}

static bool holds(Machine *m, char op, Value a, Value b) {
    switch (op) {
    case '=':
        return equal(m, a, b);
    case '!':
        return !equal(m, a, b);
    case 'i':
        return contains(m, b, a);
    case 'o':
        return !contains(m, b, a);
    case '<':
        return compare(m, a, b, "<") < 0;
    case 'l':
        return compare(m, a, b, "<=") <= 0;
    case '>':
        return compare(m, a, b, ">") == 1;
    default: {
        int order = compare(m, a, b, ">=");
        return order == 0 || order == 1;
    }
    }
}

/* a < b < c is a < b and b < c, with b evaluated once. */
static Value evaluate_compare(Machine *m, const Node *node, Scope *scope) {
    Value left = evaluate(m, node->first, scope);
    for (const Node *n = node->items; n; n = n->next) {
        Value right = evaluate(m, n->first, scope);
        if (!holds(m, n->op, left, right)) return value_bool(false);
        left = right;
    }
    return value_bool(true);
}

static Value evaluate_condition(Machine *m, const Node *node, Scope *scope) {
    if (truth(m, evaluate(m, node->second, scope))) return evaluate(m, node->first, scope);
    if (node->third) return evaluate(m, node->third, scope);
    return value_undefined(m,
                           "the inline if-expression evaluated to false and no else section was "
                           "defined.",
                           missing, none);
}

static Value evaluate_concat(Machine *m, const Node *node, Scope *scope) {
    Builder b = {0};
    for (const Node *n = node->items; n; n = n->next) build_str(m, &b, evaluate(m, n, scope));
    return value_text(m, built(&b));
}

static Value evaluate_slice(Machine *m, const Node *node, Scope *scope) {
    Value object = evaluate(m, node->first, scope), bounds[3];
    const Node *n = node->items;
    for (int i = 0; i < 3; i++, n = n->next) bounds[i] = evaluate(m, n, scope);
    return get_slice(m, object, bounds[0], bounds[1], bounds[2]);
}

static Value evaluate_filter_or_test(Machine *m, const Node *node, Scope *scope) {
    if (!node->builtin) {
        fail(m, "No %s named '%.*s' found.", node->kind == N_FILTER ? "filter" : "test",
             node->text.length < 80 ? (int)node->text.length : 80, (const char *)node->text.bytes);
    }
    Value self = node->first ? evaluate(m, node->first, scope) : m->block_text;
    return call_builtin(m, node->builtin, self, evaluate_args(m, node->items, scope, missing));
}

static Value evaluate_name(Machine *m, const Node *node, Scope *scope) {
    Value v = outer(scope, node->hops)->slots[node->slot];
    if (v.type != V_MISSING) return v;
    return value_undefined(m, NULL, missing, value_text(m, node->text));
}

static Value evaluate_logic(Machine *m, const Node *node, Scope *scope) {
    Value left = evaluate(m, node->first, scope);
    return truth(m, left) == (node->kind == N_AND) ? evaluate(m, node->second, scope) : left;
}

static Value evaluate_binary(Machine *m, const Node *node, Scope *scope) {
    Value left = evaluate(m, node->first, scope);
    return arithmetic(m, node->op, left, evaluate(m, node->second, scope));
}

static Value evaluate_access(Machine *m, const Node *node, Scope *scope) {
    Value object = evaluate(m, node->first, scope);
    if (node->kind == N_ATTR) return get_attr(m, object, node->text);
    return get_item(m, object, evaluate(m, node->second, scope));
}

static Value evaluate_call(Machine *m, const Node *node, Scope *scope, Value caller) {
    Value callee = evaluate(m, node->first, scope);
    return call_value(m, callee, evaluate_args(m, node->items, scope, caller));
}

Value evaluate(Machine *m, const Node *node, Scope *scope) {
    Value v;
    enter(m);
    switch (node->kind) {
    case N_CONST:
        v = node->value;
        break;
    case N_NAME:
        v = evaluate_name(m, node, scope);
        break;
    case N_LIST:
    case N_TUPLE:
        v = evaluate_items(m, node, scope);
        break;
    case N_DICT:
        v = evaluate_dict(m, node, scope);
        break;
    case N_UNARY:
        v = evaluate_unary(m, node, scope);
        break;
    case N_BINARY:
        v = evaluate_binary(m, node, scope);
        break;
    case N_AND:
    case N_OR:
        v = evaluate_logic(m, node, scope);
        break;
    case N_CONCAT:
        v = evaluate_concat(m, node, scope);
        break;
    case N_COMPARE:
        v = evaluate_compare(m, node, scope);
        break;
    case N_COND:
        v = evaluate_condition(m, node, scope);
        break;
    case N_ATTR:
    case N_ITEM:
        v = evaluate_access(m, node, scope);
        break;
    case N_SLICE:
        v = evaluate_slice(m, node, scope);
        break;
    case N_CALL:
        v = evaluate_call(m, node, scope, missing);
        break;
    case N_FILTER:
    case N_TEST:
        v = evaluate_filter_or_test(m, node, scope);
        break;
    default:
        fail(m, "not an expression");
    }
    leave(m);
    return v;
}

/* ---- loops ---- */

static bool advance(Machine *m, Loop *loop) {
    Value item = loop->after;
    if (item.type == V_MISSING && !next_item(m, loop->iter, &item)) return false;
    loop->after = missing;
    loop->index0++;
    loop->before = loop->current;
    loop->current = item;
    return true;
}

static Value peek(Machine *m, Loop *loop) {
    Value item;
    if (loop->after.type == V_MISSING && next_item(m, loop->iter, &item)) loop->after = item;
    return loop->after;
}

int64_t loop_length(Machine *m, Loop *loop) {
    if (loop->length >= 0) return loop->length;
    if (has_length(loop->iterable)) return loop->length = length(m, loop->iterable);
    List rest = collect(m, value_iterator(loop->iter));
    loop->iter = iterate(m, value_list(m, V_LIST, rest.items, rest.count));
    loop->length = (int64_t)rest.count + loop->index0 + 1 + (loop->after.type != V_MISSING);
    return loop->length;
}

Value loop_attr(Machine *m, Loop *loop, Text name) {
    if (text_is(name, "index")) return value_int(loop->index0 + 1);
    if (text_is(name, "index0")) return value_int(loop->index0);
    if (text_is(name, "first")) return value_bool(loop->index0 == 0);
    if (text_is(name, "last")) return value_bool(peek(m, loop).type == V_MISSING);
    if (text_is(name, "length")) return value_int(loop_length(m, loop));
    if (text_is(name, "revindex")) return value_int(loop_length(m, loop) - loop->index0);
    if (text_is(name, "revindex0")) return value_int(loop_length(m, loop) - loop->index0 - 1);
    if (text_is(name, "depth")) return value_int(loop->depth0 + 1);
    if (text_is(name, "depth0")) return value_int(loop->depth0);
    if (text_is(name, "previtem")) {
        if (loop->index0 > 0) return loop->before;
        return value_undefined(m, "there is no previous item", missing, none);
    }
    if (text_is(name, "nextitem")) {
        Value next = peek(m, loop);
        if (next.type != V_MISSING) return next;
        return value_undefined(m, "there is no next item", missing, none);
    }
    return missing;
}

/* for ... if TEST: asks only when the loop wants the next item, as jinja2's generator does. */
static bool next_passing(Machine *m, Iter *it, Value *item) {
    while (next_item(m, it->inner, item)) {
        assign(m, it->node->first, *item, it->scope);
        if (truth(m, evaluate(m, it->node->third, it->scope))) return true;
    }
    return false;
}

static Iter *iterate_passing(Machine *m, const Node *node, Value iterable, Scope *scope) {
    Iter *it = NEW(m, Iter);
    it->next = next_passing;
    it->inner = iterate(m, iterable);
    it->node = node;
    it->scope = new_scope(m, node->test_frame, scope);
    return it;
}

static Flow run_for(Machine *m, const Node *node, Scope *outside, Value iterable, int64_t depth0) {
    Loop *loop = NEW(m, Loop);
    *loop = (Loop){.index0 = -1, .length = -1, .depth0 = depth0, .scope = outside};
    loop->node = node->recursive ? node : NULL;
    loop->iter = node->third ? iterate_passing(m, node, iterable, outside) : iterate(m, iterable);
    loop->iterable = node->third ? value_iterator(loop->iter) : iterable;
    Scope *scope = new_scope(m, node->frame, outside);
    bool completed = false;
    while (advance(m, loop)) {
        begin_scope(m, node->frame, scope);
        scope->slots[0] = (Value){.type = V_LOOP, .from_template = FROM_TEMPLATE, .as.loop = loop};
        assign(m, node->first, loop->current, scope);
        Flow flow = run_all(m, node->body, scope);
        if (flow == FLOW_BREAK) break;
        /* jinja2 runs `else` unless some round reaches its end: `continue` does not count. */
        if (flow == FLOW_NEXT) completed = true;
    }
    if (completed || !node->orelse) return FLOW_NEXT;
    return run_all(m, node->orelse, new_scope(m, node->else_frame, outside));
}

Text loop_recurse(Machine *m, Loop *loop, Value iterable) {
    if (!loop->node) fail(m, "The loop must have the 'recursive' marker to be called recursively.");
    Builder captured = {0}, *out = m->out;
    m->out = &captured;
    run_for(m, loop->node, loop->scope, iterable, loop->depth0 + 1);
    m->out = out;
    return built(&captured);
}

/* ---- statements ---- */

/* Captures a block, puts it through a filter, if there is one, and gives the result. */
static Flow run_block(Machine *m, const Node *node, Scope *scope, Value *result) {
    Flow flow;
    Scope *inside = new_scope(m, node->frame, scope);
    *result = value_text(m, run_captured(m, node->body, inside, &flow));
    if (flow != FLOW_NEXT || !node->second) return flow;
    m->block_text = *result;
    *result = evaluate(m, node->second, inside);
    return FLOW_NEXT;
}

/* What a call block or a filter block gives must be text already. */
static void write_text(Machine *m, Value v) {
    if (v.type != V_STRING) fail(m, "a block gives '%s', not text", type_name(v));
    build(m, m->out, *v.as.text);
}

static Flow run_with(Machine *m, const Node *node, Scope *scope) {
    Scope *inside = new_scope(m, node->frame, scope);
    for (const Node *n = node->items; n; n = n->next) {
        assign(m, n->first, evaluate(m, n->second, scope), inside);
    }
    return run_all(m, node->body, inside);
}

static Flow run_statement(Machine *m, const Node *node, Scope *scope) {
    Flow flow;
    Value v;
    m->line = node->line;
    switch (node->kind) {
    case N_DATA:
        build(m, m->out, *node->value.as.text);
        return FLOW_NEXT;
    case N_PRINT:
        for (const Node *n = node->items; n; n = n->next)
            build_str(m, m->out, evaluate(m, n, scope));
        return FLOW_NEXT;
    case N_FOR:
        return run_for(m, node, scope, evaluate(m, node->second, scope), 0);
    case N_IF:
        return run_all(m, truth(m, evaluate(m, node->first, scope)) ? node->body : node->orelse,
                       scope);
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
        fail(m, "not a statement");
    }
}

static Flow run_all(Machine *m, const Node *list, Scope *scope) {
    Flow flow = FLOW_NEXT;
    enter(m);
    for (; list && flow == FLOW_NEXT; list = list->next) {
        flow = run_statement(m, list, scope);
        if (m->out->length > m->max_output) fail(m, "the template's output is too long");
    }
    leave(m);
    return flow;
}

void run(Machine *m, const Node *statements, const Frame *frame) {
    run_all(m, statements, new_scope(m, frame, NULL));
}
