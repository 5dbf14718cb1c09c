/* Filters of text and numbers (jinja2's filters.py), and the table of all filters. */
#include "template/arithmetic.h"
#include "template/builtins.h"
#include "template/case.h"
#include "template/character_classes.h"
#include "template/format_percent.h"
#include "template/tojson.h"
#include "template/list_filters.h"
#include "template/print.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Converts any value to a string, as jinja2's soft_str does for filters of text. */
static Value soft(Machine *m, Value v) {
    return v.type == V_STRING ? v : jinja_value_text(m, jinja_to_text(m, v));
}

/* ---- text ---- */

static Value filter_case(Machine *m, Value self, Case how) {
    Value s = soft(m, self);
    return jinja_value_like(m, s, jinja_text_case(m, *s.as.text, how));
}
static BUILTIN(filter_upper) {
    return filter_case(m, self, CASE_UPPER);
}
static BUILTIN(filter_lower) {
    return filter_case(m, self, CASE_LOWER);
}

static BUILTIN(filter_capitalize) {
    Value s = soft(m, self);
    return jinja_value_like(m, s, jinja_text_capitalize(m, *s.as.text));
}

static bool begins_word(uint32_t c) {
    return jinja_char_is_space(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<';
}

/* Unlike in str.title(), words begin after white space, '-' and opening brackets only. */
static BUILTIN(filter_title) {
    Text t = jinja_to_text(m, self);
    Builder b = {0};
    for (size_t at = 0, end, size; at < t.length; at = end) {
        bool separator = begins_word(jinja_text_char(t, at, &size));
        size_t first = at + size;
        for (end = first; end < t.length; end += size) {
            if (begins_word(jinja_text_char(t, end, &size)) != separator) break;
        }
        jinja_build(m, &b, jinja_text_case(m, jinja_text_cut(t, at, first), CASE_UPPER));
        jinja_build(m, &b, jinja_text_case(m, jinja_text_cut(t, first, end), CASE_LOWER));
    }
    return jinja_value_text(m, jinja_built(&b));
}

static BUILTIN(filter_trim) {
    Value s = soft(m, self);
    int sides = STRIP_LEFT | STRIP_RIGHT;
    if (!jinja_given(a[0])) return jinja_value_like(m, s, jinja_text_strip(m, *s.as.text, sides));
    if (a[0].type != V_STRING) jinja_fail(m, "trim: the characters must be a string");
    return jinja_value_like(m, s, jinja_text_strip_chars(m, *s.as.text, *a[0].as.text, sides));
}

static BUILTIN(filter_replace) {
    int64_t count = jinja_given(a[2]) ? jinja_to_index(m, a[2]) : -1;
    return jinja_value_text(m, jinja_text_replace(m, jinja_to_text(m, self), jinja_to_text(m, a[0]),
                                                  jinja_to_text(m, a[1]), count));
}

static BUILTIN(filter_format) {
    if (args->count && args->n_keywords) {
        jinja_fail(m, "can't handle positional and keyword arguments at the same time");
    }
    Value values = jinja_value_list(m, V_TUPLE, args->values, args->count);
    if (args->n_keywords) {
        values = jinja_value_dict(m);
        jinja_dict_update(m, values.as.dict, args);
    }
    Value s = soft(m, self);
    return jinja_value_like(m, s, jinja_format_percent(m, s, values));
}

static BUILTIN(filter_center) {
    Value s = soft(m, self);
    return jinja_value_like(
        m, s, jinja_text_center(m, *s.as.text, jinja_text_c(m, " "), jinja_int_or(m, a[0], 80)));
}

/* Indents the lines of a text. Lines are split where str.splitlines() splits them, and each is
 * written with \n as its end. */
static BUILTIN(filter_indent) {
    if (self.type == V_UNDEFINED) jinja_fail_undefined(m, self);
    if (self.type != V_STRING) jinja_fail(m, "indent: not a string");
    Builder spaces = {0}, b = {0};
    if (a[0].type == V_STRING)
        jinja_build(m, &spaces, *a[0].as.text);
    else
        jinja_build_repeat(m, &spaces, jinja_text_c(m, " "), jinja_int_or(m, a[0], 4));
    Text t = *self.as.text, indent = jinja_built(&spaces);
    bool first = jinja_flag(m, a[1]), blank = jinja_flag(m, a[2]);
    jinja_spend_slow(m, t.length);
    for (size_t at = 0, line = 0, next;; at = next, line++) {
        size_t end = jinja_text_line(t, at, &next);
        if (line == 0 ? first : blank || end > at) jinja_build(m, &b, indent);
        jinja_build(m, &b, jinja_text_cut(t, at, end));
        if (next == end) break;
        jinja_build_bytes(m, &b, "\n", 1, t.from_template[end]);
    }
    return jinja_value_like(m, self, jinja_built(&b));
}

static BUILTIN(filter_truncate) {
    int64_t limit = jinja_int_or(m, a[0], 255),
            leeway = jinja_given(a[3]) ? jinja_to_index(m, a[3]) : 5;
    Text end = a[2].type == V_MISSING ? jinja_text_c(m, "...") : jinja_to_text(m, a[2]);
    int64_t end_count = (int64_t)jinja_text_count(m, end);
    if (limit < end_count || leeway < 0)
        jinja_fail(m, "truncate: expected length >= %lld", (long long)end_count);
    if (jinja_length(m, self) - leeway <= limit) return self;
    if (self.type != V_STRING) jinja_fail(m, "truncate: not a string");
    Text t = *self.as.text;
    Text kept = jinja_text_cut(t, 0, jinja_text_offset(m, t, (size_t)(limit - end_count)));
    size_t space = jinja_text_find_last(m, kept, jinja_text_c(m, " "));
    if (!jinja_flag(m, a[1]) && space != SIZE_MAX) kept = jinja_text_cut(kept, 0, space);
    Builder b = {0};
    jinja_build(m, &b, kept);
    jinja_build(m, &b, end);
    return jinja_value_like(m, self, jinja_built(&b));
}

static BUILTIN(filter_wordcount) {
    Text t = jinja_to_text(m, self);
    int64_t words = 0;
    bool inside = false;
    jinja_spend_slow(m, t.length);
    for (size_t at = 0, size; at < t.length; at += size) {
        bool word = jinja_char_is_word(jinja_text_char(t, at, &size));
        words += word && !inside;
        inside = word;
    }
    return jinja_value_int(words);
}

static BUILTIN(filter_safe) {
    return jinja_value_markup(m, jinja_to_text(m, self));
}
static BUILTIN(filter_forceescape) {
    return jinja_value_markup(m, jinja_text_escape(m, jinja_to_text(m, self)));
}
static BUILTIN(filter_escape) {
    return self.type == V_STRING && self.markup ? self : filter_forceescape(m, self, a, args);
}

static void build_quoted_url(Machine *m, Builder *b, Value v, bool query) {
    Text t = jinja_to_text(m, v);
    for (size_t i = 0; i < t.length; i++) {
        uint8_t c = t.bytes[i];
        char hex[8];
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                     (c && strchr("_.-~", c)) || (c == '/' && !query);
        snprintf(hex, sizeof hex, query && c == ' ' ? "+" : "%%%02X", c);
        if (plain)
            jinja_build(m, b, jinja_text_cut(t, i, i + 1));
        else
            jinja_build_c(m, b, hex, t.from_template[i]);
    }
}

static BUILTIN(filter_urlencode) {
    Builder b = {0};
    if (self.type == V_STRING || !jinja_is_iterable(self)) {
        build_quoted_url(m, &b, self, false);
        return jinja_value_text(m, jinja_built(&b));
    }
    Value pairs = self.type == V_DICT ? jinja_value_view(m, self, VIEW_ITEMS) : self, pair;
    for (Iter *it = jinja_iterate(m, pairs); jinja_next_item(m, it, &pair);) {
        List kv = jinja_collect(m, pair);
        if (kv.count != 2) jinja_fail(m, "urlencode: expected pairs");
        if (b.length) jinja_build_c(m, &b, "&", FROM_TEMPLATE);
        build_quoted_url(m, &b, kv.items[0], true);
        jinja_build_c(m, &b, "=", FROM_TEMPLATE);
        build_quoted_url(m, &b, kv.items[1], true);
    }
    return jinja_value_text(m, jinja_built(&b));
}

static BUILTIN(filter_string) {
    return soft(m, self);
}

static BUILTIN(filter_tojson) {
    return jinja_value_text(m,
                            jinja_to_json(m, self, jinja_flag(m, a[0]), jinja_value_or(a[1], none),
                                          jinja_value_or(a[2], none), jinja_flag(m, a[3])));
}

/* ---- numbers ---- */

static BUILTIN(filter_abs) {
    if (self.type == V_UNDEFINED) jinja_fail_undefined(m, self);
    if (!jinja_is_number(self))
        jinja_fail(m, "bad operand type for abs(): '%s'", jinja_type_name(self));
    bool negative = self.type == V_FLOAT ? signbit(self.as.real) != 0 : self.as.integer < 0;
    if (self.type == V_BOOL) self.type = V_INT;
    return negative ? jinja_negate(m, self) : self;
}

/* The first that works of int(value), int(value, base), int(float(value)) and the default. */
static BUILTIN(filter_int) {
    Value otherwise = jinja_value_or(a[0], jinja_value_int(0)), result = otherwise;
    if (self.type == V_UNDEFINED) jinja_fail_undefined(m, self);
    if (jinja_is_integer(self)) {
        result = jinja_value_int(self.as.integer);
        result.from_template = self.from_template;
    } else if (self.type == V_FLOAT) {
        if (isnan(self.as.real)) return otherwise;
        result = jinja_double_to_int(m, self.as.real);
        result.from_template = self.from_template;
    } else if (self.type == V_STRING) {
        Text t = jinja_text_strip(m, *self.as.text, STRIP_LEFT | STRIP_RIGHT);
        int64_t integer, base = jinja_int_or(m, a[1], 10);
        bool over;
        double real;
        if (base != 0 && (base < 2 || base > 36)) base = 10;
        if (jinja_parse_int(t, (int)base, &integer, &over)) {
            if (over) jinja_fail_overflow(m);
            result = jinja_value_int(integer);
        } else if (jinja_parse_float(m, t, &real) && isfinite(real)) {
            result = jinja_double_to_int(m, real);
        } else {
            return otherwise;
        }
        result.from_template = jinja_text_from_template(t);
    }
    return result;
}

static BUILTIN(filter_float) {
    double f;
    if (self.type == V_UNDEFINED) jinja_fail_undefined(m, self);
    Value result = jinja_value_or(a[0], jinja_value_float(0));
    if (jinja_is_number(self)) {
        result = jinja_value_float(jinja_to_double(self));
        result.from_template = self.from_template;
    } else if (self.type == V_STRING) {
        Text t = jinja_text_strip(m, *self.as.text, STRIP_LEFT | STRIP_RIGHT);
        if (!jinja_parse_float(m, t, &f)) return result;
        result = jinja_value_float(f);
        result.from_template = jinja_text_from_template(t);
    }
    return result;
}

/* Python's round(f, precision): half to even of the exact binary value, as printf rounds. */
static double round_decimal(double f, int64_t precision) {
    char text[FLOAT_TEXT_SIZE + 330];
    if (!isfinite(f) || precision > 320) return f;
    if (precision < -308) return copysign(0, f);
    if (precision < 0) {
        double unit = pow(10, (double)-precision);
        return nearbyint(f / unit) * unit;
    }
    snprintf(text, sizeof text, "%.*f", (int)precision, f);
    return strtod(text, NULL);
}

static int64_t round_int(Machine *m, int64_t i, int64_t precision) {
    if (precision >= 0) return i;
    if (precision < -18) return 0;
    int64_t unit = 1;
    while (precision++ < 0) unit *= 10;
    int64_t rest = i % unit, down = i - rest; /* `down` is rounded toward zero */
    if (rest < 0) rest = -rest;
    bool up = rest > unit - rest || (rest == unit - rest && (down / unit) % 2 != 0);
    if (up && __builtin_add_overflow(down, i < 0 ? -unit : unit, &down)) jinja_fail_overflow(m);
    return down;
}

/* round(precision, method): "common" rounds as Python's round() does; "ceil" and "floor" round up
 * and down to as many decimals. */
static BUILTIN(filter_round) {
    int64_t precision = jinja_int_or(m, a[0], 0);
    Text method = a[1].type == V_MISSING ? jinja_text_c(m, "common") : jinja_to_text(m, a[1]);
    bool common = jinja_text_is(method, "common"), up = jinja_text_is(method, "ceil");
    if (!common && !up && !jinja_text_is(method, "floor"))
        jinja_fail(m, "method must be common, ceil or floor");
    if (self.type == V_UNDEFINED) jinja_fail_undefined(m, self);
    if (!jinja_is_number(self))
        jinja_fail(m, "type %s doesn't define __round__ method", jinja_type_name(self));
    Value result;
    if (common && jinja_is_integer(self)) {
        result = jinja_value_int(round_int(m, self.as.integer, precision));
    } else if (common) {
        double rounded = round_decimal(self.as.real, precision);
        if (isinf(rounded) && isfinite(self.as.real))
            jinja_fail(m, "rounded value too large to represent");
        result = jinja_value_float(rounded);
    } else {
        Value scale =
            jinja_arithmetic(m, OP_POWER, jinja_value_int(10), jinja_value_int(precision));
        double scaled = jinja_to_double(jinja_arithmetic(m, OP_MULTIPLY, self, scale));
        if (!isfinite(scaled)) jinja_fail(m, "cannot convert float to integer");
        result = jinja_value_float((up ? ceil(scaled) : floor(scaled)) / jinja_to_double(scale));
    }
    result.from_template = self.from_template;
    return result;
}

const Builtin jinja_filters[] = {
    {"abs", filter_abs, "", 0},
    {"attr", jinja_filter_attr, "name", 1},
    {"batch", jinja_filter_batch, "linecount,fill_with", 1},
    {"capitalize", filter_capitalize, "", 0},
    {"center", filter_center, "width", 0},
    {"count", jinja_filter_length, "", 0},
    {"d", jinja_filter_default, "default_value,boolean", 0},
    {"default", jinja_filter_default, "default_value,boolean", 0},
    {"dictsort", jinja_filter_dictsort, "case_sensitive,by,reverse", 0},
    {"e", filter_escape, "", 0},
    {"escape", filter_escape, "", 0},
    {"first", jinja_filter_first, "", 0},
    {"float", filter_float, "default", 0},
    {"forceescape", filter_forceescape, "", 0},
    {"format", filter_format, NULL, 0},
    {"groupby", jinja_filter_groupby, "attribute,default,case_sensitive", 1},
    {"indent", filter_indent, "width,first,blank", 0},
    {"int", filter_int, "default,base", 0},
    {"items", jinja_filter_items, "", 0},
    {"join", jinja_filter_join, "d,attribute", 0},
    {"last", jinja_filter_last, "", 0},
    {"length", jinja_filter_length, "", 0},
    {"list", jinja_filter_list, "", 0},
    {"lower", filter_lower, "", 0},
    {"map", jinja_filter_map, NULL, 0},
    {"max", jinja_filter_max, "case_sensitive,attribute", 0},
    {"min", jinja_filter_min, "case_sensitive,attribute", 0},
    {"reject", jinja_filter_reject, NULL, 0},
    {"rejectattr", jinja_filter_rejectattr, NULL, 0},
    {"replace", filter_replace, "old,new,count", 2},
    {"reverse", jinja_filter_reverse, "", 0},
    {"round", filter_round, "precision,method", 0},
    {"safe", filter_safe, "", 0},
    {"select", jinja_filter_select, NULL, 0},
    {"selectattr", jinja_filter_selectattr, NULL, 0},
    {"slice", jinja_filter_slice, "slices,fill_with", 1},
    {"sort", jinja_filter_sort, "reverse,case_sensitive,attribute", 0},
    {"string", filter_string, "", 0},
    {"sum", jinja_filter_sum, "attribute,start", 0},
    {"title", filter_title, "", 0},
    {"tojson", filter_tojson, "ensure_ascii,indent,separators,sort_keys", 0},
    {"trim", filter_trim, "chars", 0},
    {"truncate", filter_truncate, "length,killwords,end,leeway", 0},
    {"unique", jinja_filter_unique, "case_sensitive,attribute", 0},
    {"upper", filter_upper, "", 0},
    {"urlencode", filter_urlencode, "", 0},
    {"wordcount", filter_wordcount, "", 0},
    {0},
};
