#include "template/format_percent.h"

#include "template/compare.h"
#include "template/format.h"
#include "template/number.h"
#include "template/print.h"

#include <string.h>

typedef struct Percent {
    Machine *m;
    Text format;
    size_t at;
    Value values;
    bool is_tuple, used; /* a value that is not a tuple is the only argument */
    size_t next;
} Percent;

static Value next_value(Percent *p) {
    if (p->is_tuple) {
        if (p->next < p->values.as.list->count) return p->values.as.list->items[p->next++];
    } else if (!p->used) {
        p->used = true;
        return p->values;
    }
    fail(p->m, "not enough arguments for format string");
}

static bool skip_char(Percent *p, char c) {
    bool found = p->at < p->format.length && p->format.bytes[p->at] == c;
    p->at += found;
    return found;
}

static int64_t star_or_digits(Percent *p) {
    if (skip_char(p, '*')) return to_index(p->m, next_value(p));
    return read_digits(p->m, p->format, &p->at);
}

static Value mapping_value(Percent *p) {
    size_t start = p->at, depth = 1;
    for (; p->at < p->format.length; p->at++) {
        uint8_t c = p->format.bytes[p->at];
        if (c == '(') depth++;
        if (c == ')' && --depth == 0) break;
    }
    if (p->at == p->format.length) fail(p->m, "incomplete format key");
    if (p->values.type != V_DICT) fail(p->m, "format requires a mapping");
    Text key = text_cut(p->format, start, p->at++);
    Value *found = dict_find(p->m, p->values.as.dict, value_text(p->m, key));
    if (!found) fail(p->m, "a format key is missing");
    return *found;
}

static void convert_percent(Percent *p, Builder *out, Spec spec, Value v, bool zero) {
    Machine *m = p->m;
    bool integer = is_one_of((uint8_t)spec.type, "diuxXo");
    bool real = is_one_of((uint8_t)spec.type, "eEfFgG");
    if (spec.type == 's' || spec.type == 'r' || spec.type == 'a') {
        Text t = spec.type == 's'   ? to_text(m, v)
                 : spec.type == 'r' ? repr_text(m, v)
                                    : ascii_text(m, v);
        format_text(m, out, t, &spec);
    } else if (spec.type == 'c') {
        spec.precision = -1;
        if (v.type == V_STRING && text_count(m, *v.as.text) == 1)
            format_text(m, out, *v.as.text, &spec);
        else if (is_integer(v))
            format_char(m, out, v, &spec);
        else
            fail(m, "%%c requires int or char");
    } else if (integer || real) {
        if (v.type == V_UNDEFINED) fail_undefined(m, v);
        bool wants_int = strchr("xXo", spec.type) != NULL;
        if (wants_int ? !is_integer(v) : !is_number(v)) {
            fail(m, "%%%c format: a number is required, not %s", spec.type, type_name(v));
        }
        if (zero && spec.align != '<') spec.fill = text_c(m, "0"), spec.align = '=';
        if (integer && v.type == V_FLOAT) {
            uint8_t from_template = v.from_template;
            v = double_to_int(m, v.as.real);
            v.from_template = from_template;
        }
        if (integer)
            format_int(m, out, v, &spec);
        else
            format_float(m, out, v, &spec);
    } else {
        fail(m, "unsupported format character");
    }
}

Text format_percent(Machine *m, Value format, Value values) {
    Percent p = {.m = m, .format = *format.as.text, .values = values};
    p.is_tuple = values.type == V_TUPLE;
    bool is_mapping = values.type == V_DICT || values.type == V_LIST || values.type == V_RANGE ||
                      values.type == V_UNDEFINED;
    Builder out = {0};
    while (p.at < p.format.length) {
        const uint8_t *found = memchr(p.format.bytes + p.at, '%', p.format.length - p.at);
        size_t plain = found ? (size_t)(found - p.format.bytes) : p.format.length;
        build(m, &out, text_cut(p.format, p.at, plain));
        p.at = plain + 1;
        if (!found) break;
        Spec spec = {.fill = text_c(m, " "), .align = '>', .sign = '-', .precision = -1};
        Value v = {.type = V_MISSING};
        bool zero = false;
        if (skip_char(&p, '(')) v = mapping_value(&p);
        for (bool more = true; more;) {
            more = true;
            if (skip_char(&p, '-'))
                spec.align = '<';
            else if (skip_char(&p, '+'))
                spec.sign = '+';
            else if (skip_char(&p, ' '))
                spec.sign = spec.sign == '+' ? '+' : ' ';
            else if (skip_char(&p, '#'))
                spec.alternate = true;
            else if (skip_char(&p, '0'))
                zero = true;
            else
                more = false;
        }
        spec.width = star_or_digits(&p);
        if (spec.width < 0) spec.width = -spec.width, spec.align = '<';
        if (skip_char(&p, '.')) spec.precision = star_or_digits(&p);
        if (spec.precision < -1) spec.precision = 0;
        while (skip_char(&p, 'l') || skip_char(&p, 'h') || skip_char(&p, 'L')) {
        }
        if (p.at >= p.format.length) fail(m, "incomplete format");
        spec.type = (char)p.format.bytes[p.at++];
        if (spec.type == '%') {
            build(m, &out, text_cut(p.format, p.at - 1, p.at));
            continue;
        }
        if (v.type == V_MISSING) v = next_value(&p);
        size_t start = out.length;
        convert_percent(&p, &out, spec, v, zero);
        if (format.markup && !v.markup) { /* Markup % x escapes x */
            Text piece = text_escape(m, text_cut(built(&out), start, out.length));
            out.length = start;
            build(m, &out, piece);
        }
    }
    bool all_used = p.is_tuple ? p.next == values.as.list->count : p.used || is_mapping;
    if (!all_used) fail(m, "not all arguments converted during string formatting");
    return built(&out);
}
