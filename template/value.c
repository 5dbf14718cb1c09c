#include "template/value.h"

Value jinja_value_text(Machine *m, Text t) {
    Text *kept = NEW(m, Text);
    *kept = t;
    return (Value){.type = V_STRING, .from_template = FROM_TEMPLATE, .as.text = kept};
}

Value jinja_value_markup(Machine *m, Text t) {
    Value v = jinja_value_text(m, t);
    v.markup = true;
    return v;
}

Value jinja_value_like(Machine *m, Value model, Text t) {
    Value v = jinja_value_text(m, t);
    v.markup = model.markup;
    return v;
}

Value jinja_value_list(Machine *m, ValueType type, Value *items, size_t count) {
    List *list = NEW(m, List);
    *list = (List){items, count};
    return (Value){.type = (uint8_t)type, .from_template = FROM_TEMPLATE, .as.list = list};
}

Value jinja_value_pair(Machine *m, Value a, Value b) {
    Value *items = NEW_ARRAY(m, 2, Value);
    items[0] = a, items[1] = b;
    return jinja_value_list(m, V_TUPLE, items, 2);
}

Value jinja_value_dict(Machine *m) {
    return (Value){.type = V_DICT, .from_template = FROM_TEMPLATE, .as.dict = NEW(m, Dict)};
}

Value jinja_value_view(Machine *m, Value dict, int kind) {
    View *v = NEW(m, View);
    v->dict = dict;
    v->kind = kind;
    return (Value){.type = V_VIEW, .from_template = dict.from_template, .as.view = v};
}

Value jinja_value_function(Machine *m, Value self, const struct Builtin *builtin) {
    Function *f = NEW(m, Function);
    *f = (Function){self, builtin};
    return (Value){.type = V_FUNCTION, .from_template = FROM_TEMPLATE, .as.function = f};
}

Value jinja_value_undefined(Machine *m, const char *hint, Value object, Value name) {
    Undefined *u = NEW(m, Undefined);
    *u = (Undefined){hint, object, name};
    return (Value){.type = V_UNDEFINED, .from_template = FROM_TEMPLATE, .as.undefined = u};
}

void jinja_list_append(Machine *m, List *list, size_t *capacity, Value item) {
    jinja_reserve(m, &list->items, capacity, list->count, list->count + 1, sizeof item);
    list->items[list->count++] = item;
}

const char *jinja_operator_name(Operator op) {
    static const char *const names[] = {
        [OP_NONE] = "",         [OP_NOT] = "not",   [OP_ADD] = "+",           [OP_SUBTRACT] = "-",
        [OP_MULTIPLY] = "*",    [OP_DIVIDE] = "/",  [OP_FLOOR_DIVIDE] = "//", [OP_MODULO] = "%",
        [OP_POWER] = "**",      [OP_EQUAL] = "==",  [OP_UNEQUAL] = "!=",      [OP_LESS] = "<",
        [OP_AT_MOST] = "<=",    [OP_GREATER] = ">", [OP_AT_LEAST] = ">=",     [OP_IN] = "in",
        [OP_NOT_IN] = "not in",
    };
    return names[op];
}

const char *jinja_type_name(Value v) {
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

bool jinja_is_integer(Value v) {
    return v.type == V_INT || v.type == V_BOOL;
}

bool jinja_is_number(Value v) {
    return jinja_is_integer(v) || v.type == V_FLOAT;
}

bool jinja_is_list(Value v) {
    return v.type == V_LIST || v.type == V_TUPLE;
}

bool jinja_has_length(Value v) {
    return v.type == V_STRING || v.type == V_LIST || v.type == V_TUPLE || v.type == V_DICT ||
           v.type == V_VIEW || v.type == V_RANGE || v.type == V_UNDEFINED || v.type == V_LOOP;
}
