#include "template/arithmetic.h"

#include "template/format_percent.h"
#include "template/number.h"
#include "template/print.h"

#include <math.h>
#include <string.h>

static int64_t floor_divide(Machine *m, int64_t a, int64_t b) {
    if (b == 0) jinja_fail(m, "integer division or modulo by zero");
    if (a == INT64_MIN && b == -1) jinja_fail_overflow(m);
    int64_t quotient = a / b;
    return quotient - (a % b != 0 && (a < 0) != (b < 0));
}

static int64_t int_power(Machine *m, int64_t base, int64_t exponent) {
    int64_t result = 1;
    while (exponent > 0) {
        if (exponent & 1 && __builtin_mul_overflow(result, base, &result)) jinja_fail_overflow(m);
        exponent >>= 1;
        if (exponent && __builtin_mul_overflow(base, base, &base)) jinja_fail_overflow(m);
    }
    return result;
}

/* Computes with two integers as Python does; fails where the result does not fit into 64 bits. */
static Value int_arithmetic(Machine *m, Operator op, int64_t a, int64_t b) {
    int64_t result = 0;
    bool over = false;
    switch (op) {
    case OP_ADD:
        over = __builtin_add_overflow(a, b, &result);
        break;
    case OP_SUBTRACT:
        over = __builtin_sub_overflow(a, b, &result);
        break;
    case OP_MULTIPLY:
        over = __builtin_mul_overflow(a, b, &result);
        break;
    case OP_FLOOR_DIVIDE:
        result = floor_divide(m, a, b);
        break;
    case OP_MODULO:
        result = b == -1 ? 0 : a - floor_divide(m, a, b) * b;
        break;
    case OP_POWER:
        result = int_power(m, a, b);
        break;
    default:
        break;
    }
    if (over) jinja_fail_overflow(m);
    return jinja_value_int(result);
}

static double float_modulo(Machine *m, double a, double b) {
    if (b == 0) jinja_fail(m, "float modulo");
    double rest = fmod(a, b);
    if (rest == 0) return copysign(0, b);
    return (rest < 0) != (b < 0) ? rest + b : rest;
}

static double float_floor_divide(Machine *m, double a, double b) {
    if (b == 0) jinja_fail(m, "float floor division by zero");
    double rest = fmod(a, b), quotient = (a - rest) / b;
    if (rest != 0 && (b < 0) != (rest < 0)) quotient -= 1;
    if (quotient == 0) return copysign(0, a / b);
    double whole = floor(quotient);
    return quotient - whole > 0.5 ? whole + 1 : whole;
}

static double float_power(Machine *m, double a, double b) {
    if (a == 0 && b < 0) jinja_fail(m, "0.0 cannot be raised to a negative power");
    if (a < 0 && isfinite(a) && isfinite(b) && b != floor(b))
        jinja_fail(m, "complex numbers are not supported");
    double result = pow(a, b);
    if (isinf(result) && isfinite(a) && isfinite(b)) jinja_fail(m, "Numerical result out of range");
    return result;
}

static Value float_arithmetic(Machine *m, Operator op, double a, double b) {
    switch (op) {
    case OP_ADD:
        return jinja_value_float(a + b);
    case OP_SUBTRACT:
        return jinja_value_float(a - b);
    case OP_MULTIPLY:
        return jinja_value_float(a * b);
    case OP_DIVIDE:
        if (b == 0) jinja_fail(m, "division by zero");
        return jinja_value_float(a / b);
    case OP_FLOOR_DIVIDE:
        return jinja_value_float(float_floor_divide(m, a, b));
    case OP_MODULO:
        return jinja_value_float(float_modulo(m, a, b));
    default:
        return jinja_value_float(float_power(m, a, b));
    }
}

static NORETURN void unsupported(Machine *m, Operator op, Value a, Value b) {
    jinja_fail(m, "unsupported operand type(s) for %s: '%s' and '%s'", jinja_operator_name(op),
               jinja_type_name(a), jinja_type_name(b));
}

static Value add_sequences(Machine *m, Value a, Value b) {
    if (a.type == V_STRING) {
        bool markup = a.markup || b.markup; /* the side that is not markup is escaped */
        Builder joined = {0};
        jinja_build(m, &joined,
                    markup && !a.markup ? jinja_text_escape(m, *a.as.text) : *a.as.text);
        jinja_build(m, &joined,
                    markup && !b.markup ? jinja_text_escape(m, *b.as.text) : *b.as.text);
        return markup ? jinja_value_markup(m, jinja_built(&joined))
                      : jinja_value_text(m, jinja_built(&joined));
    }
    size_t n = a.as.list->count, k = b.as.list->count;
    Value *items = NEW_ARRAY(m, n + k, Value);
    if (n) memcpy(items, a.as.list->items, n * sizeof *items);
    if (k) memcpy(items + n, b.as.list->items, k * sizeof *items);
    Value v = jinja_value_list(m, (ValueType)a.type, items, n + k);
    v.from_template = a.from_template & b.from_template;
    return v;
}

static Value repeat(Machine *m, Value sequence, int64_t times) {
    if (sequence.type == V_STRING) {
        Builder b = {0};
        jinja_build_repeat(m, &b, *sequence.as.text, times);
        return jinja_value_like(m, sequence, jinja_built(&b));
    }
    size_t n = sequence.as.list->count, total;
    if (times < 0) times = 0;
    if (!size_mul(n, (size_t)times, &total)) jinja_fail(m, "the list is too long");
    Value *items = NEW_ARRAY(m, total, Value);
    for (size_t i = 0; i < total; i++) items[i] = sequence.as.list->items[i % n];
    Value v = jinja_value_list(m, (ValueType)sequence.type, items, total);
    v.from_template = sequence.from_template;
    return v;
}

static bool is_sequence(Value v) {
    return v.type == V_STRING || v.type == V_LIST || v.type == V_TUPLE;
}

Value jinja_arithmetic(Machine *m, Operator op, Value a, Value b) {
    if (op == OP_MODULO && a.type == V_STRING)
        return jinja_value_like(m, a, jinja_format_percent(m, a, b));
    if (a.type == V_UNDEFINED) jinja_fail_undefined(m, a);
    if (b.type == V_UNDEFINED) jinja_fail_undefined(m, b);
    if (op == OP_ADD && is_sequence(a) && a.type == b.type) return add_sequences(m, a, b);
    if (op == OP_MULTIPLY && is_sequence(a) && jinja_is_integer(b))
        return repeat(m, a, b.as.integer);
    if (op == OP_MULTIPLY && jinja_is_integer(a) && is_sequence(b))
        return repeat(m, b, a.as.integer);
    if (!jinja_is_number(a) || !jinja_is_number(b)) unsupported(m, op, a, b);
    bool integers = jinja_is_integer(a) && jinja_is_integer(b) && op != OP_DIVIDE &&
                    !(op == OP_POWER && b.as.integer < 0);
    Value v = integers ? int_arithmetic(m, op, a.as.integer, b.as.integer)
                       : float_arithmetic(m, op, jinja_to_double(a), jinja_to_double(b));
    v.from_template = a.from_template & b.from_template;
    return v;
}

Value jinja_negate(Machine *m, Value v) {
    if (v.type == V_UNDEFINED) jinja_fail_undefined(m, v);
    if (!jinja_is_number(v))
        jinja_fail(m, "bad operand type for unary -: '%s'", jinja_type_name(v));
    if (jinja_is_integer(v) && v.as.integer == INT64_MIN) jinja_fail_overflow(m);
    Value result =
        v.type == V_FLOAT ? jinja_value_float(-v.as.real) : jinja_value_int(-v.as.integer);
    result.from_template = v.from_template;
    return result;
}
