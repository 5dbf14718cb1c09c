/* Filters: jinja2's filters.py. A table at the end names what there is. */
#include "template/template.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool given(Value v) {
    return v.type != V_MISSING && v.type != V_NONE;
}
static bool flag(Machine *m, Value v) {
    return v.type != V_MISSING && truth(m, v);
}
static int64_t int_or(Machine *m, Value v, int64_t otherwise) {
    return v.type == V_MISSING ? otherwise : to_index(m, v);
}

/* Filters of text take anything: jinja2's soft_str. */
static Value soft(Machine *m, Value v) {
    return v.type == V_STRING ? v : value_text(m, to_text(m, v));
}

/* ---- calling ---- */

/* Puts one argument where the parameter is; `name` is empty for the `position`-th. */
static void bind_argument(Machine *m, const Builtin *f, Value *a, size_t position, Text name,
                          Value value) {
    size_t i = 0;
    for (const char *p = f->params; *p; i++) {
        size_t length = strcspn(p, ",");
        bool matches = name.length ? length == name.length && memcmp(p, name.bytes, length) == 0
                                   : i == position;
        if (matches) {
            if (a[i].type != V_MISSING) fail(m, "%s() got an argument twice", f->name);
            a[i] = value;
            return;
        }
        p += length + (p[length] == ',');
    }
    if (name.length) {
        int length = name.length < 80 ? (int)name.length : 80;
        fail(m, "%s() got an unexpected keyword argument '%.*s'", f->name, length,
             (const char *)name.bytes);
    }
    fail(m, "%s() takes at most %zu arguments", f->name, i);
}

Value call_builtin(Machine *m, const Builtin *f, Value self, const Args *args) {
    Value a[MAX_PARAMS] = {{.type = V_MISSING}}, result;
    enter(m);
    if (f->params) {
        for (size_t i = 0; i < args->count; i++) {
            bind_argument(m, f, a, i, (Text){0}, args->values[i]);
        }
        for (size_t i = 0; i < args->n_keywords; i++) {
            bind_argument(m, f, a, 0, args->keywords[i], args->keyword_values[i]);
        }
        for (int i = 0; i < f->required; i++) {
            if (a[i].type == V_MISSING) fail(m, "%s() misses an argument", f->name);
        }
    }
    result = f->call(m, self, a, args);
    leave(m);
    return result;
}

/* ---- attributes by path: "a.b.0" ---- */

static Value by_path(Machine *m, Value item, Value path, Value otherwise) {
    if (!given(path)) return item;
    Text rest = path.type == V_STRING ? *path.as.text : (Text){0};
    for (bool more = true; more;) {
        size_t dot = text_find(m, rest, text_c(m, "."), 0);
        Text part = text_cut(rest, 0, dot == SIZE_MAX ? rest.length : dot);
        more = dot != SIZE_MAX;
        if (more) rest = text_cut(rest, dot + 1, rest.length);
        Value key = path.type == V_STRING ? value_text(m, part) : path;
        int64_t index;
        bool over;
        bool digits = part.length && part.bytes[0] >= '0' && part.bytes[0] <= '9';
        if (digits && parse_int(part, 10, &index, &over) && !over) key = value_int(index);
        item = get_item(m, item, key);
        if (item.type == V_UNDEFINED && given(otherwise)) item = otherwise;
    }
    return item;
}

static Value fold_case(Machine *m, Value v, bool case_sensitive) {
    if (case_sensitive || v.type != V_STRING) return v;
    return value_like(m, v, text_case(m, *v.as.text, CASE_LOWER));
}

static const Value none = {.type = V_NONE, .origin = FROM_TEMPLATE};

/* ---- text ---- */

static Value filter_case(Machine *m, Value self, Case how) {
    Value s = soft(m, self);
    return value_like(m, s, text_case(m, *s.as.text, how));
}
static Value filter_upper(Machine *m, Value self, const Value *a, const Args *args) {
    (void)a, (void)args;
    return filter_case(m, self, CASE_UPPER);
}
static Value filter_lower(Machine *m, Value self, const Value *a, const Args *args) {
    (void)a, (void)args;
    return filter_case(m, self, CASE_LOWER);
}

static Value filter_capitalize(Machine *m, Value self, const Value *a, const Args *args) {
    (void)a, (void)args;
    Value s = soft(m, self);
    return value_like(m, s, text_capitalize(m, *s.as.text));
}

static bool begins_word(uint32_t c) {
    return char_is_space(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<';
}

/* Not str.title(): words begin after white space and opening brackets only. */
static Value filter_title(Machine *m, Value self, const Value *a, const Args *args) {
    (void)a, (void)args;
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

static Value filter_trim(Machine *m, Value self, const Value *a, const Args *args) {
    (void)args;
    Value s = soft(m, self);
    int sides = STRIP_LEFT | STRIP_RIGHT;
    if (!given(a[0])) return value_like(m, s, text_strip(m, *s.as.text, sides));
    if (a[0].type != V_STRING) fail(m, "trim: the characters must be a string");
    return value_like(m, s, text_strip_chars(m, *s.as.text, *a[0].as.text, sides));
}

static Value filter_replace(Machine *m, Value self, const Value *a, const Args *args) {
    (void)args;
    int64_t count = given(a[2]) ? to_index(m, a[2]) : -1;
    return value_text(m,
                      text_replace(m, to_text(m, self), to_text(m, a[0]), to_text(m, a[1]), count));
}

static Value filter_format(Machine *m, Value self, const Value *a, const Args *args) {
    (void)a;
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

static Value filter_center(Machine *m, Value self, const Value *a, const Args *args) {
    (void)args;
    Value s = soft(m, self);
    int64_t width = int_or(m, a[0], 80), missing = width - (int64_t)text_count(m, *s.as.text);
    int64_t left = missing > 0 ? missing / 2 + (missing & width & 1) : 0;
    Builder b = {0};
    build_repeat(m, &b, text_c(m, " "), left);
    build(m, &b, *s.as.text);
    build_repeat(m, &b, text_c(m, " "), missing - left);
    return value_like(m, s, built(&b));
}

/* Only \n, \r and friends end lines; the last line needs no end. */
static Value filter_indent(Machine *m, Value self, const Value *a, const Args *args) {
    (void)args;
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
    for (size_t at = 0, line = 0, size; at <= t.length; at += size, line++) {
        size_t end = at;
        while (end < t.length && !char_ends_line(text_char(t, end, &size))) end += size;
        if (line > 0 && (blank || end > at)) build(m, &b, indent);
        if (line == 0 && first) build(m, &b, indent);
        build(m, &b, text_cut(t, at, end));
        if (end == t.length) break;
        text_char(t, end, &size);
        if (t.bytes[end] == '\r' && end + 1 < t.length && t.bytes[end + 1] == '\n') size = 2;
        size += end - at;
        build_bytes(m, &b, "\n", 1, t.origin[end]);
    }
    return value_like(m, self, built(&b));
}

static Value filter_truncate(Machine *m, Value self, const Value *a, const Args *args) {
    (void)args;
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

static Value filter_wordcount(Machine *m, Value self, const Value *a, const Args *args) {
    (void)a, (void)args;
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

static Value filter_safe(Machine *m, Value self, const Value *a, const Args *args) {
    (void)a, (void)args;
    return value_markup(m, to_text(m, self));
}
static Value filter_forceescape(Machine *m, Value self, const Value *a, const Args *args) {
    (void)a, (void)args;
    return value_markup(m, text_escape(m, to_text(m, self)));
}
static Value filter_escape(Machine *m, Value self, const Value *a, const Args *args) {
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
            build_c(m, b, hex, t.origin[i]);
    }
}

static Value filter_urlencode(Machine *m, Value self, const Value *a, const Args *args) {
    (void)a, (void)args;
    Builder b = {0};
    if (self.type == V_STRING || !is_iterable(self)) {
        build_quoted_url(m, &b, self, false);
        return value_text(m, built(&b));
    }
    View items = {self, VIEW_ITEMS};
    Value pairs = self, pair;
    if (self.type == V_DICT) pairs = (Value){.type = V_VIEW, .as.view = &items};
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

static Value filter_string(Machine *m, Value self, const Value *a, const Args *args) {
    (void)a, (void)args;
    return soft(m, self);
}

static Value filter_tojson(Machine *m, Value self, const Value *a, const Args *args) {
    (void)args;
    Value indent = a[1].type == V_MISSING ? none : a[1];
    Value separators = a[2].type == V_MISSING ? none : a[2];
    return value_text(m, to_json(m, self, flag(m, a[0]), indent, separators, flag(m, a[3])));
}

/* ---- numbers ---- */

static Value filter_abs(Machine *m, Value self, const Value *a, const Args *args) {
    (void)a, (void)args;
    if (self.type == V_UNDEFINED) fail_undefined(m, self);
    if (!is_number(self)) fail(m, "bad operand type for abs(): '%s'", type_name(self));
    bool negative = self.type == V_FLOAT ? signbit(self.as.real) != 0 : self.as.integer < 0;
    if (self.type == V_BOOL) self.type = V_INT;
    return negative ? negate(m, self) : self;
}

/* int(value), int(value, base), int(float(value)), or the default: the first that works. */
static Value filter_int(Machine *m, Value self, const Value *a, const Args *args) {
    (void)args;
    Value otherwise = a[0].type == V_MISSING ? value_int(0) : a[0], result = otherwise;
    if (self.type == V_UNDEFINED) fail_undefined(m, self);
    if (is_integer(self)) {
        result = value_int(self.as.integer);
        result.origin = self.origin;
    } else if (self.type == V_FLOAT) {
        if (isnan(self.as.real)) return otherwise;
        result = double_to_int(m, self.as.real);
        result.origin = self.origin;
    } else if (self.type == V_STRING) {
        Text t = text_strip(m, *self.as.text, STRIP_LEFT | STRIP_RIGHT);
        int64_t integer, base = int_or(m, a[1], 10);
        bool over;
        double real;
        if (base != 0 && (base < 2 || base > 36)) base = 10;
        if (parse_int(t, (int)base, &integer, &over)) {
            if (over) fail(m, "an integer passes 64 bits");
            result = value_int(integer);
        } else if (parse_float(m, t, &real) && isfinite(real)) {
            result = double_to_int(m, real);
        } else {
            return otherwise;
        }
        result.origin = text_origin(t);
    }
    return result;
}

static Value filter_float(Machine *m, Value self, const Value *a, const Args *args) {
    (void)args;
    double f;
    if (self.type == V_UNDEFINED) fail_undefined(m, self);
    Value result = a[0].type == V_MISSING ? value_float(0) : a[0];
    if (is_number(self)) {
        result = value_float(to_double(self));
        result.origin = self.origin;
    } else if (self.type == V_STRING) {
        Text t = text_strip(m, *self.as.text, STRIP_LEFT | STRIP_RIGHT);
        if (!parse_float(m, t, &f)) return result;
        result = value_float(f);
        result.origin = text_origin(t);
    }
    return result;
}

/* round(f, precision): half to even on the exact binary value, which is what printf does. */
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
    int64_t rest = i % unit, down = i - rest; /* toward zero */
    if (rest < 0) rest = -rest;
    bool up = rest > unit - rest || (rest == unit - rest && (down / unit) % 2 != 0);
    if (up && __builtin_add_overflow(down, i < 0 ? -unit : unit, &down))
        fail(m, "an integer passes 64 bits");
    return down;
}

static Value filter_round(Machine *m, Value self, const Value *a, const Args *args) {
    (void)args;
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
        Value scale = arithmetic(m, 'p', value_int(10), value_int(precision));
        double scaled = to_double(arithmetic(m, '*', self, scale));
        if (!isfinite(scaled)) fail(m, "cannot convert float to integer");
        result = value_float((up ? ceil(scaled) : floor(scaled)) / to_double(scale));
    }
    result.origin = self.origin;
    return result;
}

static Value filter_sum(Machine *m, Value self, const Value *a, const Args *args) {
    (void)args;
    Value sum = a[1].type == V_MISSING ? value_int(0) : a[1], item;
    if (sum.type == V_STRING) fail(m, "sum() can't sum strings");
    for (Iter *it = iterate(m, self); next_item(m, it, &item);) {
        sum = arithmetic(m, '+', sum, by_path(m, item, a[0], none));
    }
    return sum;
}

/* ---- sequences ---- */

static Value filter_length(Machine *m, Value self, const Value *a, const Args *args) {
    (void)a, (void)args;
    return value_int(length(m, self));
}

static Value filter_list(Machine *m, Value self, const Value *a, const Args *args) {
    (void)a, (void)args;
    List list = collect(m, self);
    return value_list(m, V_LIST, list.items, list.count);
}

static Value filter_first(Machine *m, Value self, const Value *a, const Args *args) {
    (void)a, (void)args;
    Value item;
    if (next_item(m, iterate(m, self), &item)) return item;
    return value_undefined(m, "No first item, sequence was empty.", none, none);
}

static Value filter_last(Machine *m, Value self, const Value *a, const Args *args) {
    (void)a, (void)args;
    Value item;
    Iter *it = iterate_reversed(m, self);
    if (!it) fail(m, "'%s' object is not reversible", type_name(self));
    if (next_item(m, it, &item)) return item;
    return value_undefined(m, "No last item, sequence was empty.", none, none);
}

static Value filter_reverse(Machine *m, Value self, const Value *a, const Args *args) {
    (void)a, (void)args;
    if (self.type == V_STRING) return get_slice(m, self, none, none, value_int(-1));
    Iter *it = iterate_reversed(m, self);
    if (it) return value_iterator(it);
    List items = collect(m, self); /* an iterator */
    return get_slice(m, value_list(m, V_LIST, items.items, items.count), none, none, value_int(-1));
}

static Value filter_join(Machine *m, Value self, const Value *a, const Args *args) {
    (void)args;
    Text separator = a[0].type == V_MISSING ? (Text){0} : to_text(m, a[0]);
    Builder b = {0};
    Value item;
    Iter *it = iterate(m, self);
    for (bool first = true; next_item(m, it, &item); first = false) {
        if (!first) build(m, &b, separator);
        build_str(m, &b, by_path(m, item, a[1], none));
    }
    return value_text(m, built(&b));
}

static Value filter_default(Machine *m, Value self, const Value *a, const Args *args) {
    (void)args;
    bool missing = self.type == V_UNDEFINED || (flag(m, a[1]) && !truth(m, self));
    if (!missing) return self;
    return a[0].type == V_MISSING ? value_text(m, (Text){0}) : a[0];
}

static Value filter_attr(Machine *m, Value self, const Value *a, const Args *args) {
    (void)args;
    if (self.type == V_UNDEFINED) fail_undefined(m, self);
    if (a[0].type != V_STRING) fail(m, "attr: the name must be a string");
    Value v = get_method(m, self, *a[0].as.text);
    return v.type == V_MISSING ? value_undefined(m, NULL, self, a[0]) : v;
}

static Value new_iterator(Machine *m, bool (*next)(Machine *, Iter *, Value *), Value source) {
    Iter *it = NEW(m, Iter);
    it->next = next;
    it->source = source;
    return value_iterator(it);
}

/* The items that such a filter reads: none if the value is false, as jinja2 has it. */
static bool next_source(Machine *m, Iter *it, Value *item) {
    if (!it->inner) {
        if (!truth(m, it->source)) it->source = value_list(m, V_LIST, NULL, 0);
        it->inner = iterate(m, it->source);
    }
    return next_item(m, it->inner, item);
}

static bool next_pair(Machine *m, Iter *it, Value *item) {
    if (!it->inner && it->source.type == V_UNDEFINED) return false;
    if (!it->inner) {
        if (it->source.type != V_DICT) fail(m, "Can only get item pairs from a mapping.");
        View *items = NEW(m, View);
        *items = (View){it->source, VIEW_ITEMS};
        it->inner = iterate(m, (Value){.type = V_VIEW, .as.view = items});
    }
    return next_item(m, it->inner, item);
}

static Value filter_items(Machine *m, Value self, const Value *a, const Args *args) {
    (void)a, (void)args;
    return new_iterator(m, next_pair, self);
}

static Value keyword(const Args *args, const char *name) {
    for (size_t i = 0; i < args->n_keywords; i++) {
        if (text_is(args->keywords[i], name)) return args->keyword_values[i];
    }
    return (Value){.type = V_MISSING};
}

/* The arguments after the first `n`. */
static const Args *after(Machine *m, const Args *args, size_t n) {
    Args *rest = NEW(m, Args);
    *rest = *args;
    rest->values += n, rest->count -= n;
    return rest;
}

static _Noreturn void unknown(Machine *m, const char *what, Value name) {
    if (name.type == V_UNDEFINED) fail_undefined(m, name);
    Text t = repr_text(m, name, false);
    fail(m, "No %s named %.*s.", what, t.length < 80 ? (int)t.length : 80, (const char *)t.bytes);
}

static bool next_mapped(Machine *m, Iter *it, Value *item) {
    if (!next_source(m, it, item)) return false;
    const Args *args = it->args;
    Value attribute = keyword(args, "attribute");
    if (args->count == 0) {
        bool has_default = keyword(args, "default").type != V_MISSING;
        if (attribute.type == V_MISSING) fail(m, "map requires a filter argument");
        if (args->n_keywords > 1 + (size_t)has_default) fail(m, "map: unexpected keyword argument");
        *item = by_path(m, *item, attribute, keyword(args, "default"));
        return true;
    }
    Value name = args->values[0];
    const Builtin *filter = name.type == V_STRING ? find_filter(*name.as.text) : NULL;
    if (!filter) unknown(m, "filter", name);
    *item = call_builtin(m, filter, *item, after(m, args, 1));
    return true;
}

static Value filter_map(Machine *m, Value self, const Value *a, const Args *args) {
    (void)a;
    Value v = new_iterator(m, next_mapped, self);
    v.as.iter->args = args;
    return v;
}

static bool next_selected(Machine *m, Iter *it, Value *item) {
    size_t used = it->by_attribute;
    while (next_source(m, it, item)) {
        Value tested = *item;
        if (it->by_attribute) {
            if (it->args->count == 0) fail(m, "Missing parameter for attribute name");
            tested = by_path(m, *item, it->args->values[0], none);
        }
        bool passed;
        if (it->args->count > used) {
            Value name = it->args->values[used];
            const Builtin *test = name.type == V_STRING ? find_test(*name.as.text) : NULL;
            if (!test) unknown(m, "test", name);
            passed = truth(m, call_builtin(m, test, tested, after(m, it->args, used + 1)));
        } else {
            passed = truth(m, tested);
        }
        if (passed != it->negate) return true;
    }
    return false;
}

static Value select_items(Machine *m, Value self, const Args *args, bool negate_it,
                          bool by_attribute) {
    Value v = new_iterator(m, next_selected, self);
    v.as.iter->args = args;
    v.as.iter->negate = negate_it;
    v.as.iter->by_attribute = by_attribute;
    return v;
}
static Value filter_select(Machine *m, Value self, const Value *a, const Args *args) {
    (void)a;
    return select_items(m, self, args, false, false);
}
static Value filter_reject(Machine *m, Value self, const Value *a, const Args *args) {
    (void)a;
    return select_items(m, self, args, true, false);
}
static Value filter_selectattr(Machine *m, Value self, const Value *a, const Args *args) {
    (void)a;
    return select_items(m, self, args, false, true);
}
static Value filter_rejectattr(Machine *m, Value self, const Value *a, const Args *args) {
    (void)a;
    return select_items(m, self, args, true, true);
}

/* A copy of the filter's arguments, for when the items are asked for. */
static Value new_lazy(Machine *m, bool (*next)(Machine *, Iter *, Value *), Value source,
                      const Value *a, size_t count) {
    Args *kept = NEW(m, Args);
    kept->count = count;
    kept->values = NEW_ARRAY(m, count, Value);
    memcpy(kept->values, a, count * sizeof *a);
    Value v = new_iterator(m, next, source);
    v.as.iter->args = kept;
    return v;
}

static bool next_unique(Machine *m, Iter *it, Value *item) {
    if (!it->inner) it->inner = iterate(m, it->source);
    while (next_item(m, it->inner, item)) {
        Value key = by_path(m, *item, it->args->values[1], none);
        key = fold_case(m, key, flag(m, it->args->values[0]));
        if (dict_find(m, it->seen, key)) continue;
        dict_append(m, it->seen, key, none);
        return true;
    }
    return false;
}

static Value filter_unique(Machine *m, Value self, const Value *a, const Args *args) {
    (void)args;
    Value v = new_lazy(m, next_unique, self, a, 2);
    v.as.iter->seen = NEW(m, Dict);
    return v;
}

static List batches(Machine *m, List items, int64_t size, Value fill) {
    size_t each = size < 1 ? items.count + 1 : (size_t)size, n = 0;
    Value *lists = NEW_ARRAY(m, items.count / each + 2, Value);
    if (size == 0 && items.count)
        lists[n++] = value_list(m, V_LIST, NULL, 0); /* as jinja2 has it */
    for (size_t i = 0; i < items.count; i += each) {
        size_t have = items.count - i < each ? items.count - i : each;
        size_t count = given(fill) && size > 0 ? each : have;
        Value *batch = NEW_ARRAY(m, count, Value);
        for (size_t k = 0; k < count; k++) batch[k] = k < have ? items.items[i + k] : fill;
        lists[n++] = value_list(m, V_LIST, batch, count);
    }
    return (List){lists, n};
}

static List slices(Machine *m, List items, int64_t wanted, Value fill) {
    if (wanted == 0) fail(m, "integer division or modulo by zero");
    size_t n = wanted < 0 ? 0 : (size_t)wanted, offset = 0;
    Value *lists = NEW_ARRAY(m, n, Value);
    for (size_t i = 0; i < n; i++) {
        size_t count = items.count / n + (i < items.count % n);
        bool add = given(fill) && i >= items.count % n;
        Value *slice = NEW_ARRAY(m, count + add, Value);
        if (count) memcpy(slice, items.items + offset, count * sizeof *slice);
        if (add) slice[count] = fill;
        lists[i] = value_list(m, V_LIST, slice, count + add);
        offset += count;
    }
    return (List){lists, n};
}

static bool next_part(Machine *m, Iter *it, Value *item) {
    if (!it->inner) {
        List items = collect(m, it->source);
        int64_t size = to_index(m, it->args->values[0]);
        List parts = (it->negate ? slices : batches)(m, items, size, it->args->values[1]);
        it->inner = iterate(m, value_list(m, V_LIST, parts.items, parts.count));
    }
    return next_item(m, it->inner, item);
}

static Value filter_batch(Machine *m, Value self, const Value *a, const Args *args) {
    (void)args;
    return new_lazy(m, next_part, self, a, 2);
}

static Value filter_slice(Machine *m, Value self, const Value *a, const Args *args) {
    (void)args;
    Value v = new_lazy(m, next_part, self, a, 2);
    v.as.iter->negate = true;
    return v;
}

/* ---- order ---- */

/* Stable merge sort by keys. Equal items keep their order when reversed, too. */
void sort_values(Machine *m, Value *keys, Value *items, size_t count, bool reverse) {
    Value *other_keys = NEW_ARRAY(m, count, Value), *other_items = NEW_ARRAY(m, count, Value);
    Value *from_keys = keys, *from = items, *to_keys = other_keys, *to = other_items;
    for (size_t width = 1; width < count; width *= 2) {
        for (size_t start = 0; start < count; start += 2 * width) {
            size_t middle = start + width < count ? start + width : count;
            size_t end = middle + width < count ? middle + width : count;
            size_t left = start, right = middle;
            for (size_t i = start; i < end; i++) {
                bool take_right = left == middle;
                if (left < middle && right < end) {
                    Value l = from_keys[left], r = from_keys[right];
                    take_right = (reverse ? compare(m, l, r, "<") : compare(m, r, l, "<")) < 0;
                }
                size_t source = take_right ? right++ : left++;
                to_keys[i] = from_keys[source], to[i] = from[source];
            }
        }
        Value *swap = from_keys;
        from_keys = to_keys, to_keys = swap;
        swap = from, from = to, to = swap;
    }
    if (from != items && count) memcpy(items, from, count * sizeof *items);
}

/* A list of the attributes that "a,b.c" names, for comparing. */
static Value sort_key(Machine *m, Value item, Value attribute, bool case_sensitive) {
    if (attribute.type != V_STRING) {
        return fold_case(m, by_path(m, item, attribute, none), case_sensitive);
    }
    Text rest = *attribute.as.text;
    Value *parts = NEW_ARRAY(m, rest.length + 1, Value);
    size_t n = 0;
    for (bool more = true; more;) {
        size_t comma = text_find(m, rest, text_c(m, ","), 0);
        more = comma != SIZE_MAX;
        Value path = value_text(m, text_cut(rest, 0, more ? comma : rest.length));
        if (more) rest = text_cut(rest, comma + 1, rest.length);
        parts[n++] = fold_case(m, by_path(m, item, path, none), case_sensitive);
    }
    return value_list(m, V_LIST, parts, n);
}

static Value filter_sort(Machine *m, Value self, const Value *a, const Args *args) {
    (void)args;
    List items = collect(m, self);
    Value *sorted = NEW_ARRAY(m, items.count, Value), *keys = NEW_ARRAY(m, items.count, Value);
    for (size_t i = 0; i < items.count; i++) {
        sorted[i] = items.items[i];
        keys[i] = sort_key(m, sorted[i], a[2], flag(m, a[1]));
    }
    sort_values(m, keys, sorted, items.count, flag(m, a[0]));
    return value_list(m, V_LIST, sorted, items.count);
}

static Value filter_dictsort(Machine *m, Value self, const Value *a, const Args *args) {
    (void)args;
    Text by = a[1].type == V_MISSING ? text_c(m, "key") : to_text(m, a[1]);
    bool by_value = text_is(by, "value");
    if (!by_value && !text_is(by, "key"))
        fail(m, "You can only sort by either \"key\" or \"value\"");
    if (self.type == V_UNDEFINED) fail_undefined(m, self);
    if (self.type != V_DICT) fail(m, "dictsort: not a mapping");
    const Dict *d = self.as.dict;
    Value *pairs = NEW_ARRAY(m, d->count, Value), *keys = NEW_ARRAY(m, d->count, Value);
    for (size_t i = 0; i < d->count; i++) {
        Entry entry = d->entries[i];
        pairs[i] = value_pair(m, entry.key, entry.value);
        keys[i] = fold_case(m, by_value ? entry.value : entry.key, flag(m, a[0]));
    }
    sort_values(m, keys, pairs, d->count, flag(m, a[2]));
    return value_list(m, V_LIST, pairs, d->count);
}

static Value filter_groupby(Machine *m, Value self, const Value *a, const Args *args) {
    (void)args;
    List items = collect(m, self);
    bool case_sensitive = flag(m, a[2]);
    Value *sorted = NEW_ARRAY(m, items.count, Value), *keys = NEW_ARRAY(m, items.count, Value);
    Value *groups = NEW_ARRAY(m, items.count, Value);
    for (size_t i = 0; i < items.count; i++) {
        sorted[i] = items.items[i];
        keys[i] = fold_case(m, by_path(m, sorted[i], a[0], a[1]), case_sensitive);
    }
    sort_values(m, keys, sorted, items.count, false);
    size_t n = 0;
    for (size_t i = 0, end; i < items.count; i = end) {
        Value key = fold_case(m, by_path(m, sorted[i], a[0], a[1]), case_sensitive);
        for (end = i + 1; end < items.count; end++) {
            Value next = fold_case(m, by_path(m, sorted[end], a[0], a[1]), case_sensitive);
            if (!equal(m, key, next)) break;
        }
        Value list = value_list(m, V_LIST, sorted + i, end - i);
        groups[n] = value_pair(m, by_path(m, sorted[i], a[0], a[1]), list);
        groups[n++].markup = true; /* .grouper and .list work */
    }
    return value_list(m, V_LIST, groups, n);
}

static Value extreme(Machine *m, Value self, const Value *a, bool largest) {
    Value best, item;
    Iter *it = iterate(m, self);
    if (!next_item(m, it, &best)) {
        return value_undefined(m, "No aggregated item, sequence was empty.", none, none);
    }
    Value best_key = fold_case(m, by_path(m, best, a[1], none), flag(m, a[0]));
    while (next_item(m, it, &item)) {
        Value key = fold_case(m, by_path(m, item, a[1], none), flag(m, a[0]));
        bool better =
            largest ? compare(m, best_key, key, ">") < 0 : compare(m, key, best_key, "<") < 0;
        if (better) best = item, best_key = key;
    }
    return best;
}
static Value filter_min(Machine *m, Value self, const Value *a, const Args *args) {
    (void)args;
    return extreme(m, self, a, false);
}
static Value filter_max(Machine *m, Value self, const Value *a, const Args *args) {
    (void)args;
    return extreme(m, self, a, true);
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
