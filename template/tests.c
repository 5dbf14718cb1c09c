/* Tests, which stand after `is`: jinja2's tests.py. */
#include "template/arithmetic.h"
#include "template/builtins.h"
#include "template/case.h"
#include "template/compare.h"
#include "template/print.h"

#define TEST(name) static Value name(Machine *m, Value v, const Value *a, const Args *args)
#define UNUSED (void)m, (void)v, (void)a, (void)args

TEST(is_defined) {
    UNUSED;
    return value_bool(v.type != V_UNDEFINED);
}
TEST(is_undefined) {
    UNUSED;
    return value_bool(v.type == V_UNDEFINED);
}
TEST(is_none) {
    UNUSED;
    return value_bool(v.type == V_NONE);
}
TEST(is_boolean) {
    UNUSED;
    return value_bool(v.type == V_BOOL);
}
TEST(is_true) {
    UNUSED;
    return value_bool(v.type == V_BOOL && v.as.integer);
}
TEST(is_false) {
    UNUSED;
    return value_bool(v.type == V_BOOL && !v.as.integer);
}
TEST(is_int) {
    UNUSED;
    return value_bool(v.type == V_INT);
}
TEST(is_float) {
    UNUSED;
    return value_bool(v.type == V_FLOAT);
}
TEST(is_any_number) {
    UNUSED;
    return value_bool(is_number(v));
}
TEST(is_string) {
    UNUSED;
    return value_bool(v.type == V_STRING);
}
TEST(is_mapping) {
    UNUSED;
    return value_bool(v.type == V_DICT);
}
TEST(is_iterable_test) {
    UNUSED;
    return value_bool(is_iterable(v));
}
TEST(is_escaped) {
    UNUSED;
    return value_bool(v.type == V_STRING && v.markup);
}

TEST(is_sequence) {
    UNUSED;
    return value_bool(has_length(v) && v.type != V_VIEW && v.type != V_LOOP);
}

TEST(is_callable) {
    UNUSED;
    return value_bool(v.type == V_FUNCTION || v.type == V_MACRO || v.type == V_LOOP ||
                      v.type == V_JOINER || v.type == V_UNDEFINED);
}

static bool remainder_is(Machine *m, Value v, Value divisor, int64_t wanted) {
    return equal(m, arithmetic(m, OP_MODULO, v, divisor), value_int(wanted));
}
TEST(is_odd) {
    UNUSED;
    return value_bool(remainder_is(m, v, value_int(2), 1));
}
TEST(is_even) {
    UNUSED;
    return value_bool(remainder_is(m, v, value_int(2), 0));
}
TEST(is_divisible) {
    UNUSED;
    return value_bool(remainder_is(m, v, a[0], 0));
}

TEST(is_lower) {
    UNUSED;
    return value_bool(text_is_lower(m, to_text(m, v)));
}
TEST(is_upper) {
    UNUSED;
    return value_bool(text_is_upper(m, to_text(m, v)));
}

TEST(is_equal) {
    UNUSED;
    return value_bool(equal(m, v, a[0]));
}
TEST(is_unequal) {
    UNUSED;
    return value_bool(!equal(m, v, a[0]));
}
TEST(is_less) {
    UNUSED;
    return value_bool(holds(m, OP_LESS, v, a[0]));
}
TEST(is_at_most) {
    UNUSED;
    return value_bool(holds(m, OP_AT_MOST, v, a[0]));
}
TEST(is_greater) {
    UNUSED;
    return value_bool(holds(m, OP_GREATER, v, a[0]));
}
TEST(is_in) {
    UNUSED;
    return value_bool(contains(m, a[0], v));
}
TEST(is_same) {
    UNUSED;
    return value_bool(same(v, a[0]));
}

TEST(is_at_least) {
    UNUSED;
    return value_bool(holds(m, OP_AT_LEAST, v, a[0]));
}

TEST(is_filter) {
    UNUSED;
    if (!hashable(v)) fail(m, "unhashable type: '%s'", type_name(v));
    return value_bool(v.type == V_STRING && m->builtins->filter(*v.as.text));
}
TEST(is_test) {
    UNUSED;
    if (!hashable(v)) fail(m, "unhashable type: '%s'", type_name(v));
    return value_bool(v.type == V_STRING && m->builtins->test(*v.as.text));
}

static const Builtin tests[] = {
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
};

const Builtin *find_test(Text name) {
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
        if (text_is(name, tests[i].name)) return &tests[i];
    }
    return NULL;
}
