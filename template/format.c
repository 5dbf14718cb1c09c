/* '%s: %d' % (a, b) and '{}: {:>5}'.format(a, b), with the mini-languages of both. */
#include "template/template.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_PRECISION = 200, NUMBER_SIZE = FLOAT_TEXT_SIZE + MAX_PRECISION };

/* One field, whichever language it was written in. */
typedef struct Spec {
    Text fill;
    char align;        /* '<' '>' '^' '=' or 0: the type's default */
    char sign;         /* '+' ' ' or '-' */
    bool alternate;    /* # */
    char group;        /* ',' '_' or 0 */
    int64_t width;     /* 0: none */
    int64_t precision; /* -1: none */
    char type;         /* 0: none */
} Spec;

/* strchr that does not find the end of the set in a NUL byte. */
static bool is_one_of(uint8_t c, const char *set) {
    return c && strchr(set, c);
}

static int64_t read_digits(Machine *m, Text t, size_t *at) {
    int64_t n = 0;
    for (; *at < t.length && t.bytes[*at] >= '0' && t.bytes[*at] <= '9'; ++*at) {
        n = n * 10 + (t.bytes[*at] - '0');
        if (n > INT32_MAX) fail(m, "too many decimal digits in a format string");
    }
    return n;
}

/* Pads `body` to the width. `prefix` bytes of it (sign, 0x) stay in front of '=' padding. */
static void pad(Machine *m, Builder *out, Text body, const Spec *spec, size_t prefix) {
    int64_t missing = spec->width - (int64_t)text_count(m, body);
    int64_t left = missing <= 0         ? 0
                   : spec->align == '<' ? 0
                   : spec->align == '^' ? missing / 2
                                        : missing;
    bool inside = spec->align == '=';
    if (inside) build(m, out, text_cut(body, 0, prefix));
    build_repeat(m, out, spec->fill, left);
    build(m, out, inside ? text_cut(body, prefix, body.length) : body);
    if (missing > left) build_repeat(m, out, spec->fill, missing - left);
}

static void format_text(Machine *m, Builder *out, Text t, Spec spec) {
    if (spec.precision >= 0) {
        t = text_cut(t, 0, text_offset(m, t, (size_t)spec.precision));
    }
    pad(m, out, t, &spec, 0);
}

/* Puts a separator between groups of `size` digits, counted from the right end of `digits`. */
static void group_digits(char *digits, size_t count, int size, char separator) {
    char grouped[2 * NUMBER_SIZE];
    size_t n = 0;
    for (size_t i = 0; i < count; i++) {
        if (i && (count - i) % (size_t)size == 0) grouped[n++] = separator;
        grouped[n++] = digits[i];
    }
    strcpy(grouped + n, digits + count);
    strcpy(digits, grouped);
}

/* Sign, prefix and digits, padded. `digits` has room for 2 * NUMBER_SIZE. */
static void format_digits(Machine *m, Builder *out, bool negative, const char *prefix, char *digits,
                          int group_size, uint8_t from_template, const Spec *spec) {
    if (spec->group)
        group_digits(digits, strspn(digits, "0123456789abcdefABCDEF"), group_size, spec->group);
    Builder body = {0};
    char sign[2] = {negative ? '-' : spec->sign == '-' ? 0 : spec->sign, 0};
    build_c(m, &body, sign, from_template);
    build_c(m, &body, prefix, from_template);
    size_t fixed = body.length;
    build_c(m, &body, digits, from_template);
    pad(m, out, built(&body), spec, fixed);
}

static void format_int(Machine *m, Builder *out, Value v, const Spec *spec) {
    uint64_t magnitude = v.as.integer < 0 ? -(uint64_t)v.as.integer : (uint64_t)v.as.integer;
    char digits[2 * NUMBER_SIZE];
    const char *prefix = "";
    switch (spec->type) {
    case 'x':
        snprintf(digits, sizeof digits, "%llx", (unsigned long long)magnitude), prefix = "0x";
        break;
    case 'X':
        snprintf(digits, sizeof digits, "%llX", (unsigned long long)magnitude), prefix = "0X";
        break;
    case 'o':
        snprintf(digits, sizeof digits, "%llo", (unsigned long long)magnitude), prefix = "0o";
        break;
    case 'b': {
        int n = 1;
        while (n < 64 && magnitude >> n) n++;
        for (int i = 0; i < n; i++) digits[i] = (char)('0' + (magnitude >> (n - 1 - i) & 1));
        digits[n] = 0;
        prefix = "0b";
        break;
    }
    default:
        snprintf(digits, sizeof digits, "%llu", (unsigned long long)magnitude);
    }
    if (spec->precision > 0) { /* only %: at least so many digits */
        size_t have = strlen(digits), want = (size_t)spec->precision;
        if (have < want && want < NUMBER_SIZE) {
            memmove(digits + want - have, digits, have + 1);
            memset(digits, '0', want - have);
        }
    }
    int group = is_one_of((uint8_t)spec->type, "xXob") ? 4 : 3;
    format_digits(m, out, v.as.integer < 0, spec->alternate ? prefix : "", digits, group,
                  v.from_template, spec);
}

static void format_float(Machine *m, Builder *out, Value v, const Spec *spec) {
    double f = to_double(v);
    char type = spec->type, digits[2 * NUMBER_SIZE], layout[16];
    bool percent = type == '%';
    int precision = spec->precision < 0 ? 6 : (int)spec->precision;
    if (spec->precision > MAX_PRECISION) fail(m, "precision too big");
    if (percent) f *= 100, type = 'f';
    if (type == 'n') type = 'g';
    bool negative = signbit(f) && !isnan(f);
    if (type == 0 && spec->precision < 0) {
        float_repr(fabs(f), digits);
    } else {
        snprintf(layout, sizeof layout, "%%%s.*%c", spec->alternate ? "#" : "", type ? type : 'g');
        snprintf(digits, NUMBER_SIZE, layout, precision, fabs(f));
        bool whole = !strpbrk(digits, ".einf");
        if (type == 0 && whole) strcat(digits, ".0");
    }
    if (percent) strcat(digits, "%");
    format_digits(m, out, negative, "", digits, 3, v.from_template, spec);
}

/* ---- % ---- */

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
        Text t = spec.type == 's' ? to_text(m, v) : repr_text(m, v, spec.type == 'a');
        format_text(m, out, t, spec);
    } else if (spec.type == 'c') {
        Builder b = {0};
        if (v.type == V_STRING && text_count(m, *v.as.text) == 1)
            build(m, &b, *v.as.text);
        else if (!is_integer(v))
            fail(m, "%%c requires int or char");
        else if (v.as.integer < 0 || v.as.integer > 0x10FFFF || (v.as.integer >> 11) == 0x1B) {
            fail(m, "%%c arg is no character");
        } else
            build_char(m, &b, (uint32_t)v.as.integer, v.from_template);
        spec.precision = -1;
        format_text(m, out, built(&b), spec);
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

/* ---- {} ---- */

typedef struct Braces {
    Machine *m;
    const Args *args;
    bool markup;
    size_t automatic; /* the number that the next {} has */
    bool counted, numbered;
} Braces;

static Text expand(Braces *b, Text t, int depth);

static Spec parse_spec(Machine *m, Text t) {
    Spec spec = {.fill = text_c(m, " "), .sign = '-', .precision = -1};
    size_t at = 0, size = 0;
    bool filled = false;
    if (t.length) text_char(t, 0, &size);
    if (size && size < t.length && is_one_of(t.bytes[size], "<>^=")) {
        spec.fill = text_cut(t, 0, size);
        spec.align = (char)t.bytes[size];
        at = size + 1;
        filled = true;
    } else if (t.length && is_one_of(t.bytes[0], "<>^=")) {
        spec.align = (char)t.bytes[at++];
    }
    if (at < t.length && is_one_of(t.bytes[at], "+- ")) spec.sign = (char)t.bytes[at++];
    if (at < t.length && t.bytes[at] == '#') spec.alternate = true, at++;
    if (at < t.length && t.bytes[at] == '0') {
        if (!filled) spec.fill = text_c(m, "0");
        if (!spec.align) spec.align = '=';
        at++;
    }
    spec.width = read_digits(m, t, &at);
    if (at < t.length && is_one_of(t.bytes[at], ",_")) spec.group = (char)t.bytes[at++];
    if (at < t.length && t.bytes[at] == '.') {
        size_t start = ++at;
        spec.precision = read_digits(m, t, &at);
        if (at == start) fail(m, "Format specifier missing precision");
    }
    if (at < t.length && t.bytes[at] < 0x80) spec.type = (char)t.bytes[at++];
    if (at < t.length) fail(m, "Invalid format specifier");
    return spec;
}

static void format_value(Machine *m, Builder *out, Value v, Text spec_text) {
    if (spec_text.length == 0) {
        build_str(m, out, v);
        return;
    }
    Spec spec = parse_spec(m, spec_text);
    bool as_int = is_integer(v) && (spec.type == 0 || strchr("dxXobcn", spec.type));
    bool as_float = is_number(v) && !as_int && (spec.type == 0 || strchr("eEfFgGn%", spec.type));
    if (v.type == V_STRING) {
        bool ok = (spec.type == 0 || spec.type == 's') && spec.sign == '-' && !spec.group &&
                  !spec.alternate;
        if (spec.align == '=' && text_is(spec.fill, "0")) spec.align = '<';
        if (!ok || spec.align == '=') fail(m, "Invalid format specifier for a string");
        if (!spec.align) spec.align = '<';
        format_text(m, out, *v.as.text, spec);
        return;
    }
    if (!spec.align) spec.align = '>';
    if (as_int && spec.type == 'c') {
        if (v.as.integer < 0 || v.as.integer > 0x10FFFF || (v.as.integer >> 11) == 0x1B) {
            fail(m, "%%c arg is no character");
        }
        Builder b = {0};
        build_char(m, &b, (uint32_t)v.as.integer, v.from_template);
        pad(m, out, built(&b), &spec, 0);
    } else if (as_int) {
        if (spec.precision >= 0) fail(m, "Precision not allowed in integer format specifier");
        format_int(m, out, v, &spec);
    } else if (as_float) {
        format_float(m, out, v, &spec);
    } else {
        fail(m, "unsupported format string passed to %s", type_name(v));
    }
}

static bool all_digits(Text t) {
    for (size_t i = 0; i < t.length; i++) {
        if (t.bytes[i] < '0' || t.bytes[i] > '9') return false;
    }
    return t.length > 0;
}

static Value first_field(Braces *b, Text name) {
    Machine *m = b->m;
    size_t at = 0, index;
    if (name.length == 0 || all_digits(name)) {
        bool automatic = name.length == 0;
        if (automatic ? b->numbered : b->counted) {
            fail(m, "cannot switch between manual and automatic field numbering");
        }
        *(automatic ? &b->counted : &b->numbered) = true;
        index = automatic ? b->automatic++ : (size_t)read_digits(m, name, &at);
        if (index >= b->args->count) fail(m, "Replacement index %zu out of range", index);
        return b->args->values[index];
    }
    for (size_t i = 0; i < b->args->n_keywords; i++) {
        if (text_equal(b->args->keywords[i], name)) return b->args->keyword_values[i];
    }
    fail(m, "a format field is missing");
}

/* name, then .attribute and [index] */
static Value field_value(Braces *b, Text name) {
    Machine *m = b->m;
    size_t at = 0;
    while (at < name.length && !is_one_of(name.bytes[at], ".[")) at++;
    if (at == 0 && name.length) fail(m, "a format field has no name");
    Value v = first_field(b, text_cut(name, 0, at));
    while (at < name.length) {
        bool is_attr = name.bytes[at++] == '.';
        size_t start = at;
        while (at < name.length &&
               (is_attr ? !is_one_of(name.bytes[at], ".[") : name.bytes[at] != ']'))
            at++;
        Text part = text_cut(name, start, at);
        if (part.length == 0) fail(m, "Empty attribute in format string");
        if (!is_attr && at++ >= name.length) fail(m, "Missing ']' in format string");
        if (!is_attr && at < name.length && !is_one_of(name.bytes[at], ".[")) {
            fail(m, "Only '.' or '[' may follow ']' in format field specifier");
        }
        size_t digits = 0;
        if (is_attr)
            v = get_attr(m, v, part);
        else if (all_digits(part))
            v = get_item(m, v, value_int(read_digits(m, part, &digits)));
        else
            v = get_item(m, v, value_text(m, part));
    }
    return v;
}

static void expand_field(Braces *b, Builder *out, Text field, int depth) {
    Machine *m = b->m;
    size_t at = 0, brackets = 0;
    while (at < field.length && (brackets || !is_one_of(field.bytes[at], "!:"))) {
        brackets += field.bytes[at] == '[';
        if (brackets && field.bytes[at] == ']') brackets--;
        at++;
    }
    Value v = field_value(b, text_cut(field, 0, at));
    if (at < field.length && field.bytes[at] == '!') {
        char conversion = at + 1 < field.length ? (char)field.bytes[at + 1] : 0;
        at += 2;
        if (at < field.length && field.bytes[at] != ':')
            fail(m, "expected ':' after conversion specifier");
        if (conversion == 's')
            v = value_text(m, to_text(m, v));
        else if (conversion == 'r' || conversion == 'a')
            v = value_text(m, repr_text(m, v, conversion == 'a'));
        else
            fail(m, "Unknown conversion specifier");
    }
    Text spec = {0};
    if (at < field.length) spec = expand(b, text_cut(field, at + 1, field.length), depth + 1);
    Builder piece = {0};
    format_value(m, &piece, v, spec);
    build(m, out, b->markup && !v.markup ? text_escape(m, built(&piece)) : built(&piece));
}

static Text expand(Braces *b, Text t, int depth) {
    Machine *m = b->m;
    Builder out = {0};
    if (depth == 3) fail(m, "Max string recursion exceeded");
    for (size_t at = 0; at < t.length;) {
        uint8_t c = t.bytes[at];
        if (c != '{' && c != '}') {
            size_t start = at;
            while (at < t.length && t.bytes[at] != '{' && t.bytes[at] != '}') at++;
            build(m, &out, text_cut(t, start, at));
        } else if (at + 1 < t.length && t.bytes[at + 1] == c) {
            build(m, &out, text_cut(t, at, at + 1));
            at += 2;
        } else {
            size_t end = at + 1, open = 1;
            if (c == '}') fail(m, "Single '}' encountered in format string");
            for (; end < t.length; end++) {
                open += t.bytes[end] == '{';
                if (t.bytes[end] == '}' && --open == 0) break;
            }
            if (end == t.length) fail(m, "expected '}' before end of string");
            expand_field(b, &out, text_cut(t, at + 1, end), depth);
            at = end + 1;
        }
    }
    return built(&out);
}

Text format_braces(Machine *m, Value format, const Args *args) {
    Braces b = {.m = m, .args = args, .markup = format.markup};
    return expand(&b, *format.as.text, 1);
}
