/* No part of a message turns into template text: quotes and escapes get the flag of the text inside
 * them, brackets and commas the flag of the list or dict. */
#include "template/tojson.h"

#include "template/equality.h"
#include "template/iterate.h"
#include "template/number.h"
#include "template/print.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct Json {
    Machine *m;
    Builder out;
    bool ascii, sort_keys, pretty;
    Text indent, item_separator, key_separator;
} Json;

static void write_value(Json *j, Value v, int level);

static void write_escape(Json *j, uint32_t c, uint8_t from_template) {
    char text[16];
    static const char names[] = "\"\"\\\\\bb\ff\nn\rr\tt";
    for (const char *s = names; *s; s += 2) {
        if ((uint32_t)*s != c) continue;
        snprintf(text, sizeof text, "\\%c", s[1]);
        jinja_build_c(j->m, &j->out, text, from_template);
        return;
    }
    if (c < 0x10000)
        snprintf(text, sizeof text, "\\u%04x", c);
    else
        snprintf(text, sizeof text, "\\u%04x\\u%04x", 0xD7C0 + (c >> 10), 0xDC00 | (c & 0x3FF));
    jinja_build_c(j->m, &j->out, text, from_template);
}

static void write_text(Json *j, Text t) {
    uint8_t from_template = jinja_text_from_template(t);
    jinja_build_c(j->m, &j->out, "\"", from_template);
    size_t plain = 0;
    jinja_spend_slow(j->m, t.length);
    for (size_t at = 0, size; at < t.length; at += size) {
        uint32_t c = jinja_text_char(t, at, &size);
        if (c >= ' ' && c != '"' && c != '\\' && (c < 0x7F || !j->ascii)) continue;
        jinja_build(j->m, &j->out, jinja_text_cut(t, plain, at));
        write_escape(j, c, t.from_template[at]);
        plain = at + size;
    }
    jinja_build(j->m, &j->out, jinja_text_cut(t, plain, t.length));
    jinja_build_c(j->m, &j->out, "\"", from_template);
}

static void write_number(Json *j, Value v) {
    char text[FLOAT_TEXT_SIZE];
    const char *written = jinja_number_digits(j->m, v);
    if (v.type != V_FLOAT)
        snprintf(text, sizeof text, "%lld", (long long)v.as.integer);
    else if (isnan(v.as.real))
        snprintf(text, sizeof text, "NaN");
    else if (isinf(v.as.real))
        snprintf(text, sizeof text, v.as.real < 0 ? "-Infinity" : "Infinity");
    else
        jinja_float_repr(v.as.real, text);
    jinja_build_c(j->m, &j->out, written ? written : text, v.from_template);
}

static void write_scalar(Json *j, Value v) {
    switch (v.type) {
    case V_NONE:
        jinja_build_c(j->m, &j->out, "null", v.from_template);
        break;
    case V_BOOL:
        jinja_build_c(j->m, &j->out, v.as.integer ? "true" : "false", v.from_template);
        break;
    case V_INT:
    case V_FLOAT:
        write_number(j, v);
        break;
    case V_STRING:
        write_text(j, *v.as.text);
        break;
    default:
        jinja_fail(j->m, "Object of type %s is not JSON serializable", jinja_type_name(v));
    }
}

/* A key is a string, or a number, None or a bool in quotes. */
static void write_key(Json *j, Value key) {
    if (key.type == V_STRING) {
        write_text(j, *key.as.text);
        return;
    }
    if (key.type != V_NONE && !jinja_is_number(key)) {
        jinja_fail(j->m, "keys must be str, int, float, bool or None, not %s",
                   jinja_type_name(key));
    }
    jinja_build_c(j->m, &j->out, "\"", key.from_template);
    write_scalar(j, key);
    jinja_build_c(j->m, &j->out, "\"", key.from_template);
}

static void write_break(Json *j, int level, uint8_t from_template) {
    if (!j->pretty) return;
    jinja_build_c(j->m, &j->out, "\n", from_template);
    for (int i = 0; i < level; i++) {
        Text indent = j->indent;
        jinja_build_bytes(j->m, &j->out, indent.bytes, indent.length, from_template);
    }
}

static void write_separator(Json *j, Text separator, uint8_t from_template) {
    if (from_template == FROM_TEMPLATE)
        jinja_build(j->m, &j->out, separator);
    else
        jinja_build_bytes(j->m, &j->out, separator.bytes, separator.length, from_template);
}

static void write_list(Json *j, Value v, int level) {
    jinja_build_c(j->m, &j->out, "[", v.from_template);
    for (size_t i = 0; i < v.as.list->count; i++) {
        if (i) write_separator(j, j->item_separator, v.from_template);
        write_break(j, level + 1, v.from_template);
        write_value(j, v.as.list->items[i], level + 1);
    }
    if (v.as.list->count) write_break(j, level, v.from_template);
    jinja_build_c(j->m, &j->out, "]", v.from_template);
}

static void write_dict(Json *j, Value v, int level) {
    const Dict *d = v.as.dict;
    Value *keys = NEW_ARRAY(j->m, d->count, Value), *values = NEW_ARRAY(j->m, d->count, Value);
    for (size_t i = 0; i < d->count; i++) {
        keys[i] = d->entries[i].key, values[i] = d->entries[i].value;
    }
    if (j->sort_keys) jinja_sort_values(j->m, keys, values, d->count, false);
    jinja_build_c(j->m, &j->out, "{", v.from_template);
    for (size_t i = 0; i < d->count; i++) {
        if (i) write_separator(j, j->item_separator, v.from_template);
        write_break(j, level + 1, v.from_template);
        write_key(j, keys[i]);
        write_separator(j, j->key_separator, v.from_template);
        write_value(j, values[i], level + 1);
    }
    if (d->count) write_break(j, level, v.from_template);
    jinja_build_c(j->m, &j->out, "}", v.from_template);
}

static void write_value(Json *j, Value v, int level) {
    jinja_enter(j->m);
    if (v.type == V_LIST || v.type == V_TUPLE)
        write_list(j, v, level);
    else if (v.type == V_DICT)
        write_dict(j, v, level);
    else
        write_scalar(j, v);
    jinja_leave(j->m);
}

Text jinja_to_json(Machine *m, Value v, bool ascii, Value indent, Value separators,
                   bool sort_keys) {
    Json j = {.m = m, .ascii = ascii, .sort_keys = sort_keys};
    j.pretty = indent.type != V_NONE;
    j.item_separator = jinja_text_c(m, j.pretty ? "," : ", ");
    j.key_separator = jinja_text_c(m, ": ");
    if (indent.type == V_STRING) {
        j.indent = *indent.as.text;
    } else if (j.pretty) {
        Builder spaces = {0};
        jinja_build_repeat(m, &spaces, jinja_text_c(m, " "), jinja_to_index(m, indent));
        j.indent = jinja_built(&spaces);
    }
    if (separators.type != V_NONE) {
        List pair = jinja_collect(m, separators);
        if (pair.count != 2 || pair.items[0].type != V_STRING || pair.items[1].type != V_STRING) {
            jinja_fail(m, "tojson: separators must be two strings");
        }
        j.item_separator = *pair.items[0].as.text, j.key_separator = *pair.items[1].as.text;
    }
    write_value(&j, v, 0);
    return jinja_built(&j.out);
}
