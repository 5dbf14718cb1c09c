/* Python's rules for values: truth, equality, order, str() and repr(). */
#include "template/template.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- making values ---- */

Value value_text(Machine *m, Text t) {
    Text *kept = NEW(m, Text);
    *kept = t;
    return (Value){.type = V_STRING, .from_template = FROM_TEMPLATE, .as.text = kept};
}

Value value_markup(Machine *m, Text t) {
    Value v = value_text(m, t);
    v.markup = true;
    return v;
}

Value value_like(Machine *m, Value model, Text t) {
    Value v = value_text(m, t);
    v.markup = model.markup;
    return v;
}

Value value_list(Machine *m, ValueType type, Value *items, size_t count) {
    List *list = NEW(m, List);
    *list = (List){items, count};
    return (Value){.type = (uint8_t)type, .from_template = FROM_TEMPLATE, .as.list = list};
}

Value value_pair(Machine *m, Value a, Value b) {
    Value *items = NEW_ARRAY(m, 2, Value);
    items[0] = a, items[1] = b;
    return value_list(m, V_TUPLE, items, 2);
}

Value value_dict(Machine *m) {
    return (Value){.type = V_DICT, .from_template = FROM_TEMPLATE, .as.dict = NEW(m, Dict)};
}

Value value_undefined(Machine *m, const char *hint, Value object, Value name) {
    Undefined *u = NEW(m, Undefined);
    *u = (Undefined){hint, object, name};
    return (Value){.type = V_UNDEFINED, .from_template = FROM_TEMPLATE, .as.undefined = u};
}

/* ---- kinds ---- */

const char *type_name(Value v) {
    static const char *const names[] = {
        [V_MISSING] = "missing",
        [V_UNDEFINED] = "Undefined",
        [V_NONE] = "NoneType",
        [V_BOOL] = "bool",
        [V_INT] = "int",
        [V_FLOAT] = "float",
        [V_STRING] = "str",
        [V_LIST] = "list",
        [V_TUPLE] = "tuple",
        [V_DICT] = "dict",
        [V_VIEW] = "dict_view",
        [V_RANGE] = "range",
        [V_ITERATOR] = "generator",
        [V_NAMESPACE] = "Namespace",
        [V_MACRO] = "Macro",
        [V_LOOP] = "LoopContext",
        [V_FUNCTION] = "function",
        [V_CYCLER] = "Cycler",
        [V_JOINER] = "Joiner",
    };
    return names[v.type];
}

bool is_integer(Value v) {
    return v.type == V_INT || v.type == V_BOOL;
}
bool is_number(Value v) {
    return is_integer(v) || v.type == V_FLOAT;
}

static bool is_sequence(Value v) {
    return v.type == V_LIST || v.type == V_TUPLE;
}

bool has_length(Value v) {
    return v.type == V_STRING || v.type == V_LIST || v.type == V_TUPLE || v.type == V_DICT ||
           v.type == V_VIEW || v.type == V_RANGE || v.type == V_UNDEFINED || v.type == V_LOOP;
}

int64_t length(Machine *m, Value v) {
    switch (v.type) {
    case V_STRING:
        return (int64_t)text_count(m, *v.as.text);
    case V_LIST:
    case V_TUPLE:
        return (int64_t)v.as.list->count;
    case V_DICT:
        return (int64_t)v.as.dict->count;
    case V_VIEW:
        return (int64_t)v.as.view->dict.as.dict->count;
    case V_RANGE:
        return (int64_t)v.as.range->count;
    case V_LOOP:
        return loop_length(m, v.as.loop);
    case V_UNDEFINED:
        return 0;
    default:
        fail(m, "object of type '%s' has no len()", type_name(v));
    }
}

bool truth(Machine *m, Value v) {
    switch (v.type) {
    case V_NONE:
        return false;
    case V_BOOL:
    case V_INT:
        return v.as.integer != 0;
    case V_FLOAT:
        return v.as.real != 0;
    case V_STRING:
        return v.as.text->length != 0;
    default:
        return !has_length(v) || length(m, v) != 0;
    }
}

bool same(Value a, Value b) {
    if (a.type != b.type) return false;
    if (a.type == V_NONE) return true;
    if (is_integer(a)) return a.as.integer == b.as.integer;
    return a.as.text == b.as.text; /* every other member is a pointer, or as wide as one */
}

/* ---- equality and order ---- */

static int compare_numbers(Value a, Value b) {
    if (is_integer(a) && is_integer(b)) {
        return (a.as.integer > b.as.integer) - (a.as.integer < b.as.integer);
    }
    /* A long double holds every int64 and every double. */
    long double x = a.type == V_FLOAT ? (long double)a.as.real : (long double)a.as.integer;
    long double y = b.type == V_FLOAT ? (long double)b.as.real : (long double)b.as.integer;
    if (isnan(x) || isnan(y)) return 2;
    return (x > y) - (x < y);
}

static bool equal_lists(Machine *m, const List *a, const List *b) {
    if (a->count != b->count) return false;
    for (size_t i = 0; i < a->count; i++) {
        if (!equal(m, a->items[i], b->items[i])) return false;
    }
    return true;
}

static bool equal_dicts(Machine *m, const Dict *a, const Dict *b) {
    if (a->count != b->count) return false;
    for (size_t i = 0; i < a->count; i++) {
        Value *other = dict_find(m, b, a->entries[i].key);
        if (!other || !equal(m, a->entries[i].value, *other)) return false;
    }
    return true;
}

static bool equal_ranges(const Range *a, const Range *b) {
    if (a->count != b->count) return false;
    return a->count == 0 || (a->start == b->start && (a->count == 1 || a->step == b->step));
}

bool equal(Machine *m, Value a, Value b) {
    if (is_number(a) && is_number(b)) return compare_numbers(a, b) == 0;
    if (a.type != b.type) return false;
    enter(m);
    bool result;
    switch (a.type) {
    case V_NONE:
    case V_UNDEFINED:
        result = true;
        break;
    case V_STRING:
        spend(m, a.as.text->length);
        result = text_equal(*a.as.text, *b.as.text);
        break;
    case V_LIST:
    case V_TUPLE:
        result = equal_lists(m, a.as.list, b.as.list);
        break;
    case V_DICT:
        result = equal_dicts(m, a.as.dict, b.as.dict);
        break;
    case V_RANGE:
        result = equal_ranges(a.as.range, b.as.range);
        break;
    default:
        result = same(a, b);
    }
    leave(m);
    return result;
}

int compare(Machine *m, Value a, Value b, const char *op) {
    if (a.type == V_UNDEFINED) fail_undefined(m, a);
    if (b.type == V_UNDEFINED) fail_undefined(m, b);
    if (is_number(a) && is_number(b)) return compare_numbers(a, b);
    if (a.type == V_STRING && b.type == V_STRING) {
        spend(m, a.as.text->length);
        return text_compare(*a.as.text, *b.as.text);
    }
    if (a.type != b.type || !is_sequence(a)) {
        fail(m, "'%s' not supported between instances of '%s' and '%s'", op, type_name(a),
             type_name(b));
    }
    const List *x = a.as.list, *y = b.as.list;
    for (size_t i = 0; i < x->count && i < y->count; i++) {
        if (equal(m, x->items[i], y->items[i])) continue;
        enter(m);
        int order = compare(m, x->items[i], y->items[i], op);
        leave(m);
        return order;
    }
    return (x->count > y->count) - (x->count < y->count);
}

/* ---- str() and repr() ---- */

/* The quotes and escapes that stand for a string's bytes are from where the bytes are. */
static void build_quoted(Machine *m, Builder *b, Text t) {
    uint8_t from_template = text_from_template(t);
    spend_slow(m, t.length);
    bool has_single = t.length && memchr(t.bytes, '\'', t.length);
    bool has_double = t.length && memchr(t.bytes, '"', t.length);
    char quote[2] = {has_single && !has_double ? '"' : '\'', 0};
    build_c(m, b, quote, from_template);
    for (size_t at = 0, size; at < t.length; at += size) {
        uint32_t c = text_char(t, at, &size);
        char escape[16] = {'\\', (char)c, 0};
        bool plain = false;
        if (c == '\n')
            escape[1] = 'n';
        else if (c == '\r')
            escape[1] = 'r';
        else if (c == '\t')
            escape[1] = 't';
        else if (c == '\\' || c == (uint32_t)quote[0])
            plain = false;
        else if (c < 0x7F ? c >= ' ' : char_is_printable(c))
            plain = true;
        else if (c < 0x100)
            snprintf(escape, sizeof escape, "\\x%02x", c);
        else if (c < 0x10000)
            snprintf(escape, sizeof escape, "\\u%04x", c);
        else
            snprintf(escape, sizeof escape, "\\U%08x", c);
        if (plain)
            build(m, b, text_cut(t, at, at + size));
        else
            build_c(m, b, escape, t.from_template[at]);
    }
    build_c(m, b, quote, from_template);
}

static void build_items(Machine *m, Builder *b, Value v, const char *open, const char *close) {
    build_c(m, b, open, v.from_template);
    Iter *it = iterate(m, v);
    Value item;
    for (bool first = true; next_item(m, it, &item); first = false) {
        if (!first) build_c(m, b, ", ", v.from_template);
        build_repr(m, b, item);
    }
    if (v.type == V_TUPLE && v.as.list->count == 1) build_c(m, b, ",", v.from_template);
    build_c(m, b, close, v.from_template);
}

static void build_dict(Machine *m, Builder *b, Value v) {
    build_c(m, b, "{", v.from_template);
    for (size_t i = 0; i < v.as.dict->count; i++) {
        if (i) build_c(m, b, ", ", v.from_template);
        build_repr(m, b, v.as.dict->entries[i].key);
        build_c(m, b, ": ", v.from_template);
        build_repr(m, b, v.as.dict->entries[i].value);
    }
    build_c(m, b, "}", v.from_template);
}

static void build_range(Machine *m, Builder *b, Value v) {
    const Range *r = v.as.range;
    char text[96];
    if (r->step == 1)
        snprintf(text, sizeof text, "range(%lld, %lld)", (long long)r->start, (long long)r->stop);
    else
        snprintf(text, sizeof text, "range(%lld, %lld, %lld)", (long long)r->start,
                 (long long)r->stop, (long long)r->step);
    build_c(m, b, text, v.from_template);
}

static void build_macro(Machine *m, Builder *b, Value v) {
    const Node *node = v.as.macro->node;
    build_c(m, b, "<Macro ", FROM_TEMPLATE);
    if (node->kind == N_MACRO)
        build_quoted(m, b, node->text);
    else
        build_c(m, b, "anonymous", FROM_TEMPLATE);
    build_c(m, b, ">", FROM_TEMPLATE);
}

static void build_view(Machine *m, Builder *b, Value v) {
    static const char *const open[] = {"dict_keys([", "dict_values([", "dict_items(["};
    build_items(m, b, v, open[v.as.view->kind], "])");
}

static void build_loop(Machine *m, Builder *b, Value v) {
    char text[64];
    snprintf(text, sizeof text, "<LoopContext %lld/%lld>", (long long)v.as.loop->index0 + 1,
             (long long)loop_length(m, v.as.loop));
    build_c(m, b, text, FROM_TEMPLATE);
}

static void build_number(Machine *m, Builder *b, Value v) {
    char text[FLOAT_TEXT_SIZE];
    if (v.type == V_FLOAT)
        float_repr(v.as.real, text);
    else
        snprintf(text, sizeof text, "%lld", (long long)v.as.integer);
    build_c(m, b, text, v.from_template);
}

void build_repr(Machine *m, Builder *b, Value v) {
    enter(m);
    switch (v.type) {
    case V_UNDEFINED:
        build_c(m, b, "Undefined", FROM_TEMPLATE);
        break;
    case V_NONE:
        build_c(m, b, "None", v.from_template);
        break;
    case V_BOOL:
        build_c(m, b, v.as.integer ? "True" : "False", v.from_template);
        break;
    case V_INT:
    case V_FLOAT:
        build_number(m, b, v);
        break;
    case V_STRING:
        if (v.markup) build_c(m, b, "Markup(", FROM_TEMPLATE);
        build_quoted(m, b, *v.as.text);
        if (v.markup) build_c(m, b, ")", FROM_TEMPLATE);
        break;
    case V_LIST:
        build_items(m, b, v, "[", "]");
        break;
    case V_TUPLE:
        build_items(m, b, v, "(", ")");
        break;
    case V_DICT:
        build_dict(m, b, v);
        break;
    case V_NAMESPACE:
        build_c(m, b, "<Namespace ", FROM_TEMPLATE);
        build_dict(m, b, v);
        build_c(m, b, ">", FROM_TEMPLATE);
        break;
    case V_VIEW:
        build_view(m, b, v);
        break;
    case V_RANGE:
        build_range(m, b, v);
        break;
    case V_MACRO:
        build_macro(m, b, v);
        break;
    case V_LOOP:
        build_loop(m, b, v);
        break;
    default: /* Python prints an address here */
        build_c(m, b, "<", FROM_TEMPLATE);
        build_c(m, b, type_name(v), FROM_TEMPLATE);
        build_c(m, b, ">", FROM_TEMPLATE);
    }
    leave(m);
}

void build_str(Machine *m, Builder *b, Value v) {
    if (v.type == V_STRING)
        build(m, b, *v.as.text);
    else if (v.type != V_UNDEFINED)
        build_repr(m, b, v);
}

Text to_text(Machine *m, Value v) {
    if (v.type == V_STRING) return *v.as.text;
    Builder b = {0};
    build_str(m, &b, v);
    return built(&b);
}

/* repr(v), or ascii(v). */
Text repr_text(Machine *m, Value v, bool ascii) {
    Builder b = {0};
    build_repr(m, &b, v);
    if (!ascii) return built(&b);
    Text t = built(&b);
    Builder escaped = {0};
    for (size_t at = 0, size; at < t.length; at += size) {
        char escape[16];
        uint32_t c = text_char(t, at, &size);
        const char *format = c < 0x100 ? "\\x%02x" : c < 0x10000 ? "\\u%04x" : "\\U%08x";
        snprintf(escape, sizeof escape, format, c);
        if (c < 0x80)
            build(m, &escaped, text_cut(t, at, at + 1));
        else
            build_c(m, &escaped, escape, t.from_template[at]);
    }
    return built(&escaped);
}
