#include "template/print.h"

#include "base/numbers.h"
#include "template/character_classes.h"
#include "template/iterate.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int jinja_float_repr(double f, char text[static FLOAT_TEXT_SIZE]) {
    if (isnan(f)) return snprintf(text, FLOAT_TEXT_SIZE, "nan");
    if (isinf(f)) return snprintf(text, FLOAT_TEXT_SIZE, f < 0 ? "-inf" : "inf");
    int digits = numbers_digits(f, 1);
    snprintf(text, FLOAT_TEXT_SIZE, "%.*e", digits - 1, f);
    int exponent = atoi(strchr(text, 'e') + 1);
    if (exponent < -4 || exponent >= 16) return (int)strlen(text);
    int decimals = digits - 1 - exponent;
    return snprintf(text, FLOAT_TEXT_SIZE, "%.*f", decimals > 1 ? decimals : 1, f);
}

/* Python's escape for a character: \x41, \u0041 or \U00000041. */
static void write_escape(uint32_t c, char escape[static 12]) {
    const char *format = c < 0x100 ? "\\x%02x" : c < 0x10000 ? "\\u%04x" : "\\U%08x";
    snprintf(escape, 12, format, c);
}

/* Quotes come from where the whole text comes from, an escape from where its character does. */
static void build_quoted(Machine *m, Builder *b, Text t) {
    uint8_t from_template = jinja_text_from_template(t);
    jinja_spend_slow(m, t.length);
    bool has_single = t.length && memchr(t.bytes, '\'', t.length);
    bool has_double = t.length && memchr(t.bytes, '"', t.length);
    char quote[2] = {has_single && !has_double ? '"' : '\'', 0};
    jinja_build_c(m, b, quote, from_template);
    for (size_t at = 0, size; at < t.length; at += size) {
        uint32_t c = jinja_text_char(t, at, &size);
        char escape[12] = {'\\', (char)c, 0};
        bool own_escape = c == '\\' || c == (uint32_t)quote[0];
        if (!own_escape && (c < 0x7F ? c >= ' ' : jinja_char_is_printable(c))) {
            jinja_build(m, b, jinja_text_cut(t, at, at + size));
            continue;
        }
        if (c == '\n' || c == '\r' || c == '\t')
            escape[1] = c == '\n' ? 'n' : c == '\r' ? 'r' : 't';
        else if (!own_escape)
            write_escape(c, escape);
        jinja_build_c(m, b, escape, t.from_template[at]);
    }
    jinja_build_c(m, b, quote, from_template);
}

static void build_items(Machine *m, Builder *b, Value v, const char *open, const char *close) {
    jinja_build_c(m, b, open, v.from_template);
    Iter *it = jinja_iterate(m, v);
    Value item;
    for (bool first = true; jinja_next_item(m, it, &item); first = false) {
        if (!first) jinja_build_c(m, b, ", ", v.from_template);
        jinja_build_repr(m, b, item);
    }
    if (v.type == V_TUPLE && v.as.list->count == 1) jinja_build_c(m, b, ",", v.from_template);
    jinja_build_c(m, b, close, v.from_template);
}

static void build_dict(Machine *m, Builder *b, Value v) {
    jinja_build_c(m, b, "{", v.from_template);
    for (size_t i = 0; i < v.as.dict->count; i++) {
        if (i) jinja_build_c(m, b, ", ", v.from_template);
        jinja_build_repr(m, b, v.as.dict->entries[i].key);
        jinja_build_c(m, b, ": ", v.from_template);
        jinja_build_repr(m, b, v.as.dict->entries[i].value);
    }
    jinja_build_c(m, b, "}", v.from_template);
}

static void build_range(Machine *m, Builder *b, Value v) {
    const Range *r = v.as.range;
    char text[96];
    if (r->step == 1)
        snprintf(text, sizeof text, "range(%lld, %lld)", (long long)r->start, (long long)r->stop);
    else
        snprintf(text, sizeof text, "range(%lld, %lld, %lld)", (long long)r->start,
                 (long long)r->stop, (long long)r->step);
    jinja_build_c(m, b, text, v.from_template);
}

static void build_macro(Machine *m, Builder *b, Value v) {
    jinja_build_c(m, b, "<Macro ", FROM_TEMPLATE);
    if (v.as.macro->name.length)
        build_quoted(m, b, v.as.macro->name);
    else
        jinja_build_c(m, b, "anonymous", FROM_TEMPLATE);
    jinja_build_c(m, b, ">", FROM_TEMPLATE);
}

static void build_view(Machine *m, Builder *b, Value v) {
    static const char *const open[] = {"dict_keys([", "dict_values([", "dict_items(["};
    build_items(m, b, v, open[v.as.view->kind], "])");
}

static void build_loop(Machine *m, Builder *b, Value v) {
    char text[64];
    snprintf(text, sizeof text, "<LoopContext %lld/%lld>", (long long)v.as.loop->index0 + 1,
             (long long)jinja_loop_length(m, v.as.loop));
    jinja_build_c(m, b, text, FROM_TEMPLATE);
}

uint32_t jinja_note_digits(Machine *m, const char *digits) {
    jinja_reserve(m, &m->written, &m->written_capacity, m->n_written, m->n_written + 1,
                  sizeof *m->written);
    m->written[m->n_written++] = digits;
    return (uint32_t)m->n_written;
}

const char *jinja_number_digits(const Machine *m, Value v) {
    return v.written > 0 ? m->written[v.written - 1] : NULL;
}

static void build_number(Machine *m, Builder *b, Value v) {
    char text[FLOAT_TEXT_SIZE];
    const char *written = jinja_number_digits(m, v);
    if (v.type == V_FLOAT)
        jinja_float_repr(v.as.real, text);
    else
        snprintf(text, sizeof text, "%lld", (long long)v.as.integer);
    jinja_build_c(m, b, written ? written : text, v.from_template);
}

/* Appends Python's repr(v). */
void jinja_build_repr(Machine *m, Builder *b, Value v) {
    jinja_enter(m);
    switch (v.type) {
    case V_UNDEFINED:
        jinja_build_c(m, b, "Undefined", FROM_TEMPLATE);
        break;
    case V_NONE:
        jinja_build_c(m, b, "None", v.from_template);
        break;
    case V_BOOL:
        jinja_build_c(m, b, v.as.integer ? "True" : "False", v.from_template);
        break;
    case V_INT:
    case V_FLOAT:
        build_number(m, b, v);
        break;
    case V_STRING:
        if (v.markup) jinja_build_c(m, b, "Markup(", FROM_TEMPLATE);
        build_quoted(m, b, *v.as.text);
        if (v.markup) jinja_build_c(m, b, ")", FROM_TEMPLATE);
        break;
    case V_LIST:
        build_items(m, b, v, "[", "]");
        break;
    case V_TUPLE:
        build_items(m, b, v, "(", ")");
        break;
    case V_DICT:
        build_dict(m, b, v);
        break;
    case V_NAMESPACE:
        jinja_build_c(m, b, "<Namespace ", FROM_TEMPLATE);
        build_dict(m, b, v);
        jinja_build_c(m, b, ">", FROM_TEMPLATE);
        break;
    case V_VIEW:
        build_view(m, b, v);
        break;
    case V_RANGE:
        build_range(m, b, v);
        break;
    case V_MACRO:
        build_macro(m, b, v);
        break;
    case V_LOOP:
        build_loop(m, b, v);
        break;
    default: /* Python prints an address, too */
        jinja_build_c(m, b, "<", FROM_TEMPLATE);
        jinja_build_c(m, b, jinja_type_name(v), FROM_TEMPLATE);
        jinja_build_c(m, b, ">", FROM_TEMPLATE);
    }
    jinja_leave(m);
}

void jinja_build_str(Machine *m, Builder *b, Value v) {
    if (v.type == V_STRING)
        jinja_build(m, b, *v.as.text);
    else if (v.type != V_UNDEFINED)
        jinja_build_repr(m, b, v);
}

Text jinja_to_text(Machine *m, Value v) {
    if (v.type == V_STRING) return *v.as.text;
    Builder b = {0};
    jinja_build_str(m, &b, v);
    return jinja_built(&b);
}

Text jinja_repr_text(Machine *m, Value v) {
    Builder b = {0};
    jinja_build_repr(m, &b, v);
    return jinja_built(&b);
}

Text jinja_ascii_text(Machine *m, Value v) {
    Text t = jinja_repr_text(m, v);
    Builder b = {0};
    for (size_t at = 0, size; at < t.length; at += size) {
        char escape[12];
        uint32_t c = jinja_text_char(t, at, &size);
        write_escape(c, escape);
        if (c < 0x80)
            jinja_build(m, &b, jinja_text_cut(t, at, at + 1));
        else
            jinja_build_c(m, &b, escape, t.from_template[at]);
    }
    return jinja_built(&b);
}

/* The message is that of jinja2's UndefinedError. */
NORETURN void jinja_fail_undefined(Machine *m, Value v) {
    const Undefined *u = v.as.undefined;
    if (u->hint) jinja_fail(m, "%s", u->hint);
    Text name = jinja_repr_text(m, u->name);
    int length = name.length < 200 ? (int)name.length : 200;
    if (u->object.type == V_MISSING) jinja_fail(m, "%.*s is undefined", length, (char *)name.bytes);
    const char *type = jinja_type_name(u->object);
    const char *suffix = u->object.type == V_NONE ? "" : " object";
    if (u->name.type == V_STRING) {
        jinja_fail(m, "'%s%s' has no attribute %.*s", type, suffix, length, (char *)name.bytes);
    }
    jinja_fail(m, "%s%s has no element %.*s", type, suffix, length, (char *)name.bytes);
}
