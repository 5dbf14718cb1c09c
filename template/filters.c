/* Filters of text and numbers (jinja2's filters.py), and the table of all filters. */
#include "template/arithmetic.h"
#include "template/builtins.h"
#include "template/case.h"
#include "template/characters.h"
#include "template/format_percent.h"
#include "template/json.h"
#include "template/list_filters.h"
#include "template/print.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Converts any value to a string, as jinja2's soft_str does for filters of text. */
static Value soft(Machine *m, Value v) {
    return v.type == V_STRING ? v : value_text(m, to_text(m, v));
}

/* ---- text ---- */

static Value filter_case(Machine *m, Value self, Case how) {
    Value s = soft(m, self);
    return value_like(m, s, text_case(m, *s.as.text, how));
}
static BUILTIN(filter_upper) {
    return filter_case(m, self, CASE_UPPER);
}
static BUILTIN(filter_lower) {
    return filter_case(m, self, CASE_LOWER);
}

static BUILTIN(filter_capitalize) {
    Value s = soft(m, self);
    return value_like(m, s, text_capitalize(m, *s.as.text));
}

static bool begins_word(uint32_t c) {
    return char_is_space(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<';
}

/* Unlike in str.title(), words begin after white space, '-' and opening brackets only. */
static BUILTIN(filter_title) {
    Text t = to_text(m, self);
    Builder b = {0};
    for (size_t at = 0, end, size; at < t.length; at = end) {
        bool separator = begins_word(text_char(t, at, &size));
        size_t first = at + size;
        for (end = first; end < t.length; end += size) {
            if (begins_word(text_char(t, end, &size)) != separator) break;
        }
        build(m, &b, text_case(m, text_cut(t, at, first), CASE_UPPER));
        build(m, &b, text_case(m, text_cut(t, first, end), CASE_LOWER));
    }
    return value_text(m, built(&b));
}

static BUILTIN(filter_trim) {
    Value s = soft(m, self);
    int sides = STRIP_LEFT | STRIP_RIGHT;
    if (!given(a[0])) return value_like(m, s, text_strip(m, *s.as.text, sides));
    if (a[0].type != V_STRING) fail(m, "trim: the characters must be a string");
    return value_like(m, s, text_strip_chars(m, *s.as.text, *a[0].as.text, sides));
}

static BUILTIN(filter_replace) {
    int64_t count = given(a[2]) ? to_index(m, a[2]) : -1;
    return value_text(m,
                      text_replace(m, to_text(m, self), to_text(m, a[0]), to_text(m, a[1]), count));
}

static BUILTIN(filter_format) {
    if (args->count && args->n_keywords) {
        fail(m, "can't handle positional and keyword arguments at the same time");
    }
    Value values = value_list(m, V_TUPLE, args->values, args->count);
    if (args->n_keywords) {
        values = value_dict(m);
        dict_update(m, values.as.dict, args);
    }
    Value s = soft(m, self);
    return value_like(m, s, format_percent(m, s, values));
}

static BUILTIN(filter_center) {
    Value s = soft(m, self);
    return value_like(m, s, text_center(m, *s.as.text, text_c(m, " "), int_or(m, a[0], 80)));
}

/* Indents the lines of a text. Lines are split where str.splitlines() splits them, and each is
 * written with \n as its end. */
static BUILTIN(filter_indent) {
    if (self.type == V_UNDEFINED) fail_undefined(m, self);
    if (self.type != V_STRING) fail(m, "indent: not a string");
    Builder spaces = {0}, b = {0};
    if (a[0].type == V_STRING)
        build(m, &spaces, *a[0].as.text);
    else
        build_repeat(m, &spaces, text_c(m, " "), int_or(m, a[0], 4));
    Text t = *self.as.text, indent = built(&spaces);
    bool first = flag(m, a[1]), blank = flag(m, a[2]);
    spend_slow(m, t.length);
    for (size_t at = 0, line = 0, next;; at = next, line++) {
        size_t end = text_line(t, at, &next);
        if (line == 0 ? first : blank || end > at) build(m, &b, indent);
        build(m, &b, text_cut(t, at, end));
        if (next == end) break;
        build_bytes(m, &b, "\n", 1, t.from_template[end]);
    }
    return value_like(m, self, built(&b));
}

static BUILTIN(filter_truncate) {
    int64_t limit = int_or(m, a[0], 255), leeway = given(a[3]) ? to_index(m, a[3]) : 5;
    Text end = a[2].type == V_MISSING ? text_c(m, "...") : to_text(m, a[2]);
    int64_t end_count = (int64_t)text_count(m, end);
    if (limit < end_count || leeway < 0)
        fail(m, "truncate: expected length >= %lld", (long long)end_count);
    if (length(m, self) - leeway <= limit) return self;
    if (self.type != V_STRING) fail(m, "truncate: not a string");
    Text t = *self.as.text;
    Text kept = text_cut(t, 0, text_offset(m, t, (size_t)(limit - end_count)));
    size_t space = text_find_last(m, kept, text_c(m, " "));
    if (!flag(m, a[1]) && space != SIZE_MAX) kept = text_cut(kept, 0, space);
    Builder b = {0};
    build(m, &b, kept);
    build(m, &b, end);
    return value_like(m, self, built(&b));
}

static BUILTIN(filter_wordcount) {
    Text t = to_text(m, self);
    int64_t words = 0;
    bool inside = false;
    spend_slow(m, t.length);
    for (size_t at = 0, size; at < t.length; at += size) {
        bool word = char_is_word(text_char(t, at, &size));
        words += word && !inside;
        inside = word;
    }
    return value_int(words);
}

static BUILTIN(filter_safe) {
    return value_markup(m, to_text(m, self));
}
static BUILTIN(filter_forceescape) {
    return value_markup(m, text_escape(m, to_text(m, self)));
}
static BUILTIN(filter_escape) {
    return self.type == V_STRING && self.markup ? self : filter_forceescape(m, self, a, args);
}

static void build_quoted_url(Machine *m, Builder *b, Value v, bool query) {
    Text t = to_text(m, v);
    for (size_t i = 0; i < t.length; i++) {
        uint8_t c = t.bytes[i];
        char hex[8];
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                     (c && strchr("_.-~", c)) || (c == '/' && !query);
        snprintf(hex, sizeof hex, query && c == ' ' ? "+" : "%%%02X", c);
        if (plain)
            build(m, b, text_cut(t, i, i + 1));
        else
            build_c(m, b, hex, t.from_template[i]);
    }
}

static BUILTIN(filter_urlencode) {
    Builder b = {0};
    if (self.type == V_STRING || !is_iterable(self)) {
        build_quoted_url(m, &b, self, false);
        return value_text(m, built(&b));
    }
    Value pairs = self.type == V_DICT ? value_view(m, self, VIEW_ITEMS) : self, pair;
    for (Iter *it = iterate(m, pairs); next_item(m, it, &pair);) {
        List kv = collect(m, pair);
        if (kv.count != 2) fail(m, "urlencode: expected pairs");
        if (b.length) build_c(m, &b, "&", FROM_TEMPLATE);
        build_quoted_url(m, &b, kv.items[0], true);
        build_c(m, &b, "=", FROM_TEMPLATE);
        build_quoted_url(m, &b, kv.items[1], true);
    }
    return value_text(m, built(&b));
}

static BUILTIN(filter_string) {
    return soft(m, self);
}

static BUILTIN(filter_tojson) {
    return value_text(m, to_json(m, self, flag(m, a[0]), value_or(a[1], none), value_or(a[2], none),
                                 flag(m, a[3])));
}

/* ---- numbers ---- */

static BUILTIN(filter_abs) {
    if (self.type == V_UNDEFINED) fail_undefined(m, self);
    if (!is_number(self)) fail(m, "bad operand type for abs(): '%s'", type_name(self));
    bool negative = self.type == V_FLOAT ? signbit(self.as.real) != 0 : self.as.integer < 0;
    if (self.type == V_BOOL) self.type = V_INT;
    return negative ? negate(m, self) : self;
}

/* The first that works of int(value), int(value, base), int(float(value)) and the default. */
static BUILTIN(filter_int) {
    Value otherwise = value_or(a[0], value_int(0)), result = otherwise;
    if (self.type == V_UNDEFINED) fail_undefined(m, self);
    if (is_integer(self)) {
        result = value_int(self.as.integer);
        result.from_template = self.from_template;
    } else if (self.type == V_FLOAT) {
        if (isnan(self.as.real)) return otherwise;
        result = double_to_int(m, self.as.real);
        result.from_template = self.from_template;
    } else if (self.type == V_STRING) {
        Text t = text_strip(m, *self.as.text, STRIP_LEFT | STRIP_RIGHT);
        int64_t integer, base = int_or(m, a[1], 10);
        bool over;
        double real;
        if (base != 0 && (base < 2 || base > 36)) base = 10;
        if (parse_int(t, (int)base, &integer, &over)) {
            if (over) fail_overflow(m);
            result = value_int(integer);
        } else if (parse_float(m, t, &real) && isfinite(real)) {
            result = double_to_int(m, real);
        } else {
            return otherwise;
        }
        result.from_template = text_from_template(t);
    }
    return result;
}

static BUILTIN(filter_float) {
    double f;
    if (self.type == V_UNDEFINED) fail_undefined(m, self);
    Value result = value_or(a[0], value_float(0));
    if (is_number(self)) {
        result = value_float(to_double(self));
        result.from_template = self.from_template;
    } else if (self.type == V_STRING) {
        Text t = text_strip(m, *self.as.text, STRIP_LEFT | STRIP_RIGHT);
        if (!parse_float(m, t, &f)) return result;
        result = value_float(f);
        result.from_template = text_from_template(t);
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
    if (up && __builtin_add_overflow(down, i < 0 ? -unit : unit, &down)) fail_overflow(m);
    return down;
}

static BUILTIN(filter_round) {
    int64_t precision = int_or(m, a[0], 0);
    Text method = a[1].type == V_MISSING ? text_c(m, "common") : to_text(m, a[1]);
    bool common = text_is(method, "common"), up = text_is(method, "ceil");
    if (!common && !up && !text_is(method, "floor"))
        fail(m, "method must be common, ceil or floor");
    if (self.type == V_UNDEFINED) fail_undefined(m, self);
    if (!is_number(self)) fail(m, "type %s doesn't define __round__ method", type_name(self));
    Value result;
    if (common && is_integer(self)) {
        result = value_int(round_int(m, self.as.integer, precision));
    } else if (common) {
        double rounded = round_decimal(self.as.real, precision);
        if (isinf(rounded) && isfinite(self.as.real))
            fail(m, "rounded value too large to represent");
        result = value_float(rounded);
    } else {
        Value scale = arithmetic(m, OP_POWER, value_int(10), value_int(precision));
        double scaled = to_double(arithmetic(m, OP_MULTIPLY, self, scale));
        if (!isfinite(scaled)) fail(m, "cannot convert float to integer");
        result = value_float((up ? ceil(scaled) : floor(scaled)) / to_double(scale));
    }
    result.from_template = self.from_template;
    return result;
}

static const Builtin filters[] = {
    {"abs", filter_abs, "", 0},
    {"attr", filter_attr, "name", 1},
    {"batch", filter_batch, "linecount,fill_with", 1},
    {"capitalize", filter_capitalize, "", 0},
    {"center", filter_center, "width", 0},
    {"count", filter_length, "", 0},
    {"d", filter_default, "default_value,boolean", 0},
    {"default", filter_default, "default_value,boolean", 0},
    {"dictsort", filter_dictsort, "case_sensitive,by,reverse", 0},
    {"e", filter_escape, "", 0},
    {"escape", filter_escape, "", 0},
    {"first", filter_first, "", 0},
    {"float", filter_float, "default", 0},
    {"forceescape", filter_forceescape, "", 0},
    {"format", filter_format, NULL, 0},
    {"groupby", filter_groupby, "attribute,default,case_sensitive", 1},
    {"indent", filter_indent, "width,first,blank", 0},
    {"int", filter_int, "default,base", 0},
    {"items", filter_items, "", 0},
    {"join", filter_join, "d,attribute", 0},
    {"last", filter_last, "", 0},
    {"length", filter_length, "", 0},
    {"list", filter_list, "", 0},
    {"lower", filter_lower, "", 0},
    {"map", filter_map, NULL, 0},
    {"max", filter_max, "case_sensitive,attribute", 0},
    {"min", filter_min, "case_sensitive,attribute", 0},
    {"reject", filter_reject, NULL, 0},
    {"rejectattr", filter_rejectattr, NULL, 0},
    {"replace", filter_replace, "old,new,count", 2},
    {"reverse", filter_reverse, "", 0},
    {"round", filter_round, "precision,method", 0},
    {"safe", filter_safe, "", 0},
    {"select", filter_select, NULL, 0},
    {"selectattr", filter_selectattr, NULL, 0},
    {"slice", filter_slice, "slices,fill_with", 1},
    {"sort", filter_sort, "reverse,case_sensitive,attribute", 0},
    {"string", filter_string, "", 0},
    {"sum", filter_sum, "attribute,start", 0},
    {"title", filter_title, "", 0},
    {"tojson", filter_tojson, "ensure_ascii,indent,separators,sort_keys", 0},
    {"trim", filter_trim, "chars", 0},
    {"truncate", filter_truncate, "length,killwords,end,leeway", 0},
    {"unique", filter_unique, "case_sensitive,attribute", 0},
    {"upper", filter_upper, "", 0},
    {"urlencode", filter_urlencode, "", 0},
    {"wordcount", filter_wordcount, "", 0},
};

const Builtin *find_filter(Text name) {
    for (size_t i = 0; i < sizeof filters / sizeof *filters; i++) {
        if (text_is(name, filters[i].name)) return &filters[i];
    }
    return NULL;
}
