#include "template/format_percent.h"

#include "template/equality.h"
#include "template/format.h"
#include "template/number.h"
#include "template/print.h"

#include <string.h>

typedef struct Percent {
    Machine *m;
    Text format;
    bool markup; /* of the format */
    size_t at;   /* byte of `format` */
    Value values;
    bool is_tuple; /* `values` is a tuple of arguments; else it is the only argument */
    size_t next;   /* the next argument */
} Percent;

static Value next_value(Percent *p) {
    size_t count = p->is_tuple ? p->values.as.list->count : 1;
    if (p->next == count) jinja_fail(p->m, "not enough arguments for format string");
    size_t i = p->next++;
    return p->is_tuple ? p->values.as.list->items[i] : p->values;
}

static bool skip_char(Percent *p, char c) {
    bool found = p->at < p->format.length && p->format.bytes[p->at] == c;
    p->at += found;
    return found;
}

/* A width or a precision: digits, or * for an argument. */
static int64_t star_or_digits(Percent *p) {
    if (skip_char(p, '*')) return jinja_to_index(p->m, next_value(p));
    return jinja_read_digits(p->m, p->format, &p->at);
}

/* The value of the key in "(key)"; `at` lies after the opening parenthesis. */
static Value mapping_value(Percent *p) {
    size_t start = p->at, depth = 1;
    for (; p->at < p->format.length; p->at++) {
        uint8_t c = p->format.bytes[p->at];
        if (c == '(') depth++;
        if (c == ')' && --depth == 0) break;
    }
    if (p->at == p->format.length) jinja_fail(p->m, "incomplete format key");
    if (p->values.type != V_DICT) jinja_fail(p->m, "format requires a mapping");
    Text key = jinja_text_cut(p->format, start, p->at++);
    Value *found = jinja_dict_find(p->m, p->values.as.dict, jinja_value_text(p->m, key));
    if (!found) jinja_fail(p->m, "a format key is missing");
    return *found;
}

/* Writes one value; the type of `spec` is its conversion. */
static void convert(Machine *m, Builder *out, Spec spec, Value v) {
    bool integer = jinja_is_one_of((uint8_t)spec.type, "diuxXo");
    bool real = jinja_is_one_of((uint8_t)spec.type, "eEfFgG");
    if (!integer && !real && spec.align == '=') spec.align = '>'; /* 0 is a flag of numbers only */
    if (spec.type == 's' || spec.type == 'r' || spec.type == 'a') {
        Text t = spec.type == 's'   ? jinja_to_text(m, v)
                 : spec.type == 'r' ? jinja_repr_text(m, v)
                                    : jinja_ascii_text(m, v);
        jinja_format_text(m, out, t, &spec);
    } else if (spec.type == 'c') {
        spec.precision = -1;
        if (v.type == V_STRING && jinja_text_count(m, *v.as.text) == 1)
            jinja_format_text(m, out, *v.as.text, &spec);
        else if (jinja_is_integer(v))
            jinja_format_char(m, out, v, &spec);
        else
            jinja_fail(m, "%%c requires int or char");
    } else if (integer || real) {
        if (v.type == V_UNDEFINED) jinja_fail_undefined(m, v);
        bool wants_int = strchr("xXo", spec.type) != NULL;
        if (wants_int ? !jinja_is_integer(v) : !jinja_is_number(v)) {
            jinja_fail(m, "%%%c format: a number is required, not %s", spec.type,
                       jinja_type_name(v));
        }
        if (spec.align == '=') spec.fill = jinja_text_c(m, "0");
        if (integer && v.type == V_FLOAT) {
            uint8_t from_template = v.from_template;
            v = jinja_double_to_int(m, v.as.real);
            v.from_template = from_template;
        }
        if (integer)
            jinja_format_int(m, out, v, &spec);
        else
            jinja_format_float(m, out, v, &spec);
    } else {
        jinja_fail(m, "unsupported format character");
    }
}

/* Reads "flags width . precision type", which follow "%" or "%(key)". */
static Spec read_spec(Percent *p) {
    Machine *m = p->m;
    Spec spec = {.fill = jinja_text_c(m, " "), .sign = '-', .precision = -1};
    bool left = false, zero = false;
    for (bool more = true; more;) {
        if (skip_char(p, '-'))
            left = true;
        else if (skip_char(p, '+'))
            spec.sign = '+';
        else if (skip_char(p, ' '))
            spec.sign = spec.sign == '+' ? '+' : ' ';
        else if (skip_char(p, '#'))
            spec.alternate = true;
        else if (skip_char(p, '0'))
            zero = true;
        else
            more = false;
    }
    spec.width = star_or_digits(p);
    if (spec.width < 0) spec.width = -spec.width, left = true;
    spec.align = left ? '<' : zero ? '=' : '>';
    if (skip_char(p, '.')) spec.precision = star_or_digits(p);
    if (spec.precision < -1) spec.precision = 0;
    while (skip_char(p, 'l') || skip_char(p, 'h') || skip_char(p, 'L')) {
    }
    if (p->at >= p->format.length) jinja_fail(m, "incomplete format");
    spec.type = (char)p->format.bytes[p->at++];
    return spec;
}

/* Formats one field, whose "%" has been read. */
static Text format_field(Percent *p) {
    Value v = skip_char(p, '(') ? mapping_value(p) : missing;
    Spec spec = read_spec(p);
    if (spec.type == '%') return jinja_text_cut(p->format, p->at - 1, p->at);
    if (v.type == V_MISSING) v = next_value(p);
    Builder field = {0};
    convert(p->m, &field, spec, v);
    bool escape = p->markup && !v.markup; /* Markup % text escapes the text */
    return escape ? jinja_text_escape(p->m, jinja_built(&field)) : jinja_built(&field);
}

/* Python's format % values: the values are a tuple of arguments, a mapping for %(key)s, or one
 * argument. */
Text jinja_format_percent(Machine *m, Value format, Value values) {
    Percent p = {.m = m, .format = *format.as.text, .markup = format.markup, .values = values};
    p.is_tuple = values.type == V_TUPLE;
    Builder out = {0};
    while (p.at < p.format.length) {
        const uint8_t *found = memchr(p.format.bytes + p.at, '%', p.format.length - p.at);
        size_t plain = found ? (size_t)(found - p.format.bytes) : p.format.length;
        jinja_build(m, &out, jinja_text_cut(p.format, p.at, plain));
        p.at = plain + 1;
        if (found) jinja_build(m, &out, format_field(&p));
    }
    /* Python lets what can be indexed go unused: it may be the mapping of "%(key)s". */
    bool may_be_unused = values.type == V_DICT || values.type == V_LIST || values.type == V_RANGE ||
                         values.type == V_UNDEFINED;
    size_t count = p.is_tuple ? values.as.list->count : 1;
    if (p.next < count && !may_be_unused) {
        jinja_fail(m, "not all arguments converted during string formatting");
    }
    return jinja_built(&out);
}
