/* Tests, which stand after `is`: jinja2's tests.py. */
#include "template/arithmetic.h"
#include "template/builtins.h"
#include "template/case.h"
#include "template/equality.h"
#include "template/print.h"

static BUILTIN(is_defined) {
    return jinja_value_bool(self.type != V_UNDEFINED);
}
static BUILTIN(is_undefined) {
    return jinja_value_bool(self.type == V_UNDEFINED);
}
static BUILTIN(is_none) {
    return jinja_value_bool(self.type == V_NONE);
}
static BUILTIN(is_boolean) {
    return jinja_value_bool(self.type == V_BOOL);
}
static BUILTIN(is_true) {
    return jinja_value_bool(self.type == V_BOOL && self.as.integer);
}
static BUILTIN(is_false) {
    return jinja_value_bool(self.type == V_BOOL && !self.as.integer);
}
static BUILTIN(is_int) {
    return jinja_value_bool(self.type == V_INT);
}
static BUILTIN(is_float) {
    return jinja_value_bool(self.type == V_FLOAT);
}
static BUILTIN(is_any_number) {
    return jinja_value_bool(jinja_is_number(self));
}
static BUILTIN(is_string) {
    return jinja_value_bool(self.type == V_STRING);
}
static BUILTIN(is_mapping) {
    return jinja_value_bool(self.type == V_DICT);
}
static BUILTIN(is_iterable_test) {
    return jinja_value_bool(jinja_is_iterable(self));
}
static BUILTIN(is_escaped) {
    return jinja_value_bool(self.type == V_STRING && self.markup);
}

static BUILTIN(is_sequence) {
    return jinja_value_bool(jinja_has_length(self) && self.type != V_VIEW && self.type != V_LOOP);
}

static BUILTIN(is_callable) {
    return jinja_value_bool(self.type == V_FUNCTION || self.type == V_MACRO ||
                            self.type == V_LOOP || self.type == V_JOINER ||
                            self.type == V_UNDEFINED);
}

static bool remainder_is(Machine *m, Value v, Value divisor, int64_t wanted) {
    return jinja_equal(m, jinja_arithmetic(m, OP_MODULO, v, divisor), jinja_value_int(wanted));
}
static BUILTIN(is_odd) {
    return jinja_value_bool(remainder_is(m, self, jinja_value_int(2), 1));
}
static BUILTIN(is_even) {
    return jinja_value_bool(remainder_is(m, self, jinja_value_int(2), 0));
}
static BUILTIN(is_divisible) {
    return jinja_value_bool(remainder_is(m, self, a[0], 0));
}

static BUILTIN(is_lower) {
    return jinja_value_bool(jinja_text_is_lower(m, jinja_to_text(m, self)));
}
static BUILTIN(is_upper) {
    return jinja_value_bool(jinja_text_is_upper(m, jinja_to_text(m, self)));
}

static BUILTIN(is_equal) {
    return jinja_value_bool(jinja_equal(m, self, a[0]));
}
static BUILTIN(is_unequal) {
    return jinja_value_bool(!jinja_equal(m, self, a[0]));
}
static BUILTIN(is_less) {
    return jinja_value_bool(jinja_holds(m, OP_LESS, self, a[0]));
}
static BUILTIN(is_at_most) {
    return jinja_value_bool(jinja_holds(m, OP_AT_MOST, self, a[0]));
}
static BUILTIN(is_greater) {
    return jinja_value_bool(jinja_holds(m, OP_GREATER, self, a[0]));
}
static BUILTIN(is_in) {
    return jinja_value_bool(jinja_contains(m, a[0], self));
}
static BUILTIN(is_same) {
    return jinja_value_bool(jinja_same(self, a[0]));
}

static BUILTIN(is_at_least) {
    return jinja_value_bool(jinja_holds(m, OP_AT_LEAST, self, a[0]));
}

static BUILTIN(is_filter) {
    if (!jinja_hashable(self)) jinja_fail(m, "unhashable type: '%s'", jinja_type_name(self));
    return jinja_value_bool(self.type == V_STRING &&
                            jinja_find_builtin(m->builtins->filters, *self.as.text));
}
static BUILTIN(is_test) {
    if (!jinja_hashable(self)) jinja_fail(m, "unhashable type: '%s'", jinja_type_name(self));
    return jinja_value_bool(self.type == V_STRING &&
                            jinja_find_builtin(m->builtins->tests, *self.as.text));
}

const Builtin jinja_tests[] = {
    {"!=", is_unequal, "/", 1},
    {"<", is_less, "/", 1},
    {"<=", is_at_most, "/", 1},
    {"==", is_equal, "/", 1},
    {">", is_greater, "/", 1},
    {">=", is_at_least, "/", 1},
    {"boolean", is_boolean, "", 0},
    {"callable", is_callable, "", 0},
    {"defined", is_defined, "", 0},
    {"divisibleby", is_divisible, "num", 1},
    {"eq", is_equal, "/", 1},
    {"equalto", is_equal, "/", 1},
    {"escaped", is_escaped, "", 0},
    {"even", is_even, "", 0},
    {"false", is_false, "", 0},
    {"filter", is_filter, "", 0},
    {"float", is_float, "", 0},
    {"ge", is_at_least, "/", 1},
    {"greaterthan", is_greater, "/", 1},
    {"gt", is_greater, "/", 1},
    {"in", is_in, "seq", 1},
    {"integer", is_int, "", 0},
    {"iterable", is_iterable_test, "", 0},
    {"le", is_at_most, "/", 1},
    {"lessthan", is_less, "/", 1},
    {"lower", is_lower, "", 0},
    {"lt", is_less, "/", 1},
    {"mapping", is_mapping, "", 0},
    {"ne", is_unequal, "/", 1},
    {"none", is_none, "", 0},
    {"number", is_any_number, "", 0},
    {"odd", is_odd, "", 0},
    {"sameas", is_same, "other", 1},
    {"sequence", is_sequence, "", 0},
    {"string", is_string, "", 0},
    {"test", is_test, "", 0},
    {"true", is_true, "", 0},
    {"undefined", is_undefined, "", 0},
    {"upper", is_upper, "", 0},
    {0},
};
