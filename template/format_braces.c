#include "template/format_braces.h"

#include "template/access.h"
#include "template/format.h"
#include "template/print.h"

#include <string.h>

typedef struct Braces {
    Machine *m;
    const Args *args;
    bool markup;
    size_t automatic; /* the number of the next {} */
    bool counted;     /* a {} came */
    bool numbered;    /* a {0} came: Python refuses both in one string */
} Braces;

static Text expand(Braces *b, Text t, int depth);

/* Parses [[fill]align][sign][#][0][width][grouping][.precision][type], Python's format
 * specifiers. */
static Spec parse_spec(Machine *m, Text t) {
    Spec spec = {.fill = jinja_text_c(m, " "), .sign = '-', .precision = -1};
    size_t at = 0, size = 0;
    bool filled = false;
    if (t.length) jinja_text_char(t, 0, &size);
    if (size && size < t.length && jinja_is_one_of(t.bytes[size], "<>^=")) {
        spec.fill = jinja_text_cut(t, 0, size);
        spec.align = (char)t.bytes[size];
        at = size + 1;
        filled = true;
    } else if (t.length && jinja_is_one_of(t.bytes[0], "<>^=")) {
        spec.align = (char)t.bytes[at++];
    }
    if (at < t.length && jinja_is_one_of(t.bytes[at], "+- ")) spec.sign = (char)t.bytes[at++];
    if (at < t.length && t.bytes[at] == '#') spec.alternate = true, at++;
    if (at < t.length && t.bytes[at] == '0') {
        if (!filled) spec.fill = jinja_text_c(m, "0");
        if (!spec.align) spec.align = '=';
        at++;
    }
    spec.width = jinja_read_digits(m, t, &at);
    if (at < t.length && jinja_is_one_of(t.bytes[at], ",_")) spec.group = (char)t.bytes[at++];
    if (at < t.length && t.bytes[at] == '.') {
        size_t start = ++at;
        spec.precision = jinja_read_digits(m, t, &at);
        if (at == start) jinja_fail(m, "Format specifier missing precision");
    }
    if (at < t.length && t.bytes[at] < 0x80) spec.type = (char)t.bytes[at++];
    if (at < t.length) jinja_fail(m, "Invalid format specifier");
    return spec;
}

/* Appends a value as Python's format(v, spec) does; with an empty spec that is str(v). */
static void format_value(Machine *m, Builder *out, Value v, Text spec_text) {
    if (spec_text.length == 0) {
        jinja_build_str(m, out, v);
        return;
    }
    Spec spec = parse_spec(m, spec_text);
    bool as_int = jinja_is_integer(v) && (spec.type == 0 || strchr("dxXobcn", spec.type));
    bool as_float =
        jinja_is_number(v) && !as_int && (spec.type == 0 || strchr("eEfFgGn%", spec.type));
    if (v.type == V_STRING) {
        bool ok = (spec.type == 0 || spec.type == 's') && spec.sign == '-' && !spec.group &&
                  !spec.alternate;
        if (spec.align == '=' && jinja_text_is(spec.fill, "0")) spec.align = '<';
        if (!ok || spec.align == '=') jinja_fail(m, "Invalid format specifier for a string");
        if (!spec.align) spec.align = '<';
        jinja_format_text(m, out, *v.as.text, &spec);
        return;
    }
    if (!spec.align) spec.align = '>';
    if (as_int && spec.type == 'c') {
        jinja_format_char(m, out, v, &spec);
    } else if (as_int) {
        if (spec.precision >= 0) jinja_fail(m, "Precision not allowed in integer format specifier");
        jinja_format_int(m, out, v, &spec);
    } else if (as_float) {
        jinja_format_float(m, out, v, &spec);
    } else {
        jinja_fail(m, "unsupported format string passed to %s", jinja_type_name(v));
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
            jinja_fail(m, "cannot switch between manual and automatic field numbering");
        }
        *(automatic ? &b->counted : &b->numbered) = true;
        index = automatic ? b->automatic++ : (size_t)jinja_read_digits(m, name, &at);
        if (index >= b->args->count) jinja_fail(m, "Replacement index %zu out of range", index);
        return b->args->values[index];
    }
    const Value *found = jinja_find_keyword(b->args, name);
    if (!found) jinja_fail(m, "a format field is missing");
    return *found;
}

/* Cuts the next .attribute (is_attr) or [index] off the name at *at, which is behind its '.' or
 * '['. */
static Text next_part(Braces *b, Text name, bool is_attr, size_t *at) {
    Machine *m = b->m;
    size_t start = *at;
    while (*at < name.length &&
           (is_attr ? !jinja_is_one_of(name.bytes[*at], ".[") : name.bytes[*at] != ']'))
        ++*at;
    Text part = jinja_text_cut(name, start, *at);
    if (part.length == 0) jinja_fail(m, "Empty attribute in format string");
    if (is_attr) return part;
    if (*at >= name.length) jinja_fail(m, "Missing ']' in format string");
    ++*at;
    if (*at < name.length && !jinja_is_one_of(name.bytes[*at], ".["))
        jinja_fail(m, "Only '.' or '[' may follow ']' in format field specifier");
    return part;
}

/* The value that a field names: an argument, then .attribute and [index]. */
static Value field_value(Braces *b, Text name) {
    Machine *m = b->m;
    size_t at = 0;
    while (at < name.length && !jinja_is_one_of(name.bytes[at], ".[")) at++;
    if (at == 0 && name.length) jinja_fail(m, "a format field has no name");
    Value v = first_field(b, jinja_text_cut(name, 0, at));
    while (at < name.length) {
        bool is_attr = name.bytes[at++] == '.';
        Text part = next_part(b, name, is_attr, &at);
        size_t digits = 0;
        if (is_attr)
            v = jinja_get_attr(m, v, part);
        else if (all_digits(part))
            v = jinja_get_item(m, v, jinja_value_int(jinja_read_digits(m, part, &digits)));
        else
            v = jinja_get_item(m, v, jinja_value_text(m, part));
    }
    return v;
}

/* Appends a replacement field, what stands between { and }: the value, !conversion, then :spec,
 * which may have fields itself. */
static void expand_field(Braces *b, Builder *out, Text field, int depth) {
    Machine *m = b->m;
    size_t at = 0, brackets = 0;
    while (at < field.length && (brackets || !jinja_is_one_of(field.bytes[at], "!:"))) {
        brackets += field.bytes[at] == '[';
        if (brackets && field.bytes[at] == ']') brackets--;
        at++;
    }
    Value v = field_value(b, jinja_text_cut(field, 0, at));
    if (at < field.length && field.bytes[at] == '!') {
        char conversion = at + 1 < field.length ? (char)field.bytes[at + 1] : 0;
        at += 2;
        if (at < field.length && field.bytes[at] != ':')
            jinja_fail(m, "expected ':' after conversion specifier");
        if (conversion == 's')
            v = jinja_value_text(m, jinja_to_text(m, v));
        else if (conversion == 'r' || conversion == 'a')
            v = jinja_value_text(m, conversion == 'r' ? jinja_repr_text(m, v)
                                                      : jinja_ascii_text(m, v));
        else
            jinja_fail(m, "Unknown conversion specifier");
    }
    Text spec = {0};
    if (at < field.length) spec = expand(b, jinja_text_cut(field, at + 1, field.length), depth + 1);
    Builder piece = {0};
    format_value(m, &piece, v, spec);
    jinja_build(m, out,
                b->markup && !v.markup ? jinja_text_escape(m, jinja_built(&piece))
                                       : jinja_built(&piece));
}

/* Returns the text with its replacement fields filled in; {{ and }} become single braces. `depth`
 * limits fields within the specs of fields, as Python does. */
static Text expand(Braces *b, Text t, int depth) {
    Machine *m = b->m;
    Builder out = {0};
    if (depth == 3) jinja_fail(m, "Max string recursion exceeded");
    for (size_t at = 0; at < t.length;) {
        uint8_t c = t.bytes[at];
        if (c != '{' && c != '}') {
            size_t start = at;
            while (at < t.length && t.bytes[at] != '{' && t.bytes[at] != '}') at++;
            jinja_build(m, &out, jinja_text_cut(t, start, at));
        } else if (at + 1 < t.length && t.bytes[at + 1] == c) {
            jinja_build(m, &out, jinja_text_cut(t, at, at + 1));
            at += 2;
        } else {
            size_t end = at + 1, open = 1;
            if (c == '}') jinja_fail(m, "Single '}' encountered in format string");
            for (; end < t.length; end++) {
                open += t.bytes[end] == '{';
                if (t.bytes[end] == '}' && --open == 0) break;
            }
            if (end == t.length) jinja_fail(m, "expected '}' before end of string");
            expand_field(b, &out, jinja_text_cut(t, at + 1, end), depth);
            at = end + 1;
        }
    }
    return jinja_built(&out);
}

Text jinja_format_braces(Machine *m, Value format, const Args *args) {
    Braces b = {.m = m, .args = args, .markup = format.markup};
    return expand(&b, *format.as.text, 1);
}
