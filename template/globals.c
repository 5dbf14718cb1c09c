/* Global functions: what jinja2 and transformers put into every template. */
#include "template/builtins.h"
#include "template/print.h"

#include <string.h>

enum { MAX_RANGE = 100000 }; /* jinja2's sandbox */

/* range(stop) and range(start, stop[, step]), with at most MAX_RANGE numbers. */
static BUILTIN(make_range) {
    if (args->n_keywords || args->count < 1 || args->count > 3) {
        jinja_fail(m, "range expected 1 to 3 arguments");
    }
    Range *r = NEW(m, Range);
    bool one = args->count == 1;
    r->start = one ? 0 : jinja_to_index(m, args->values[0]);
    r->stop = jinja_to_index(m, args->values[one ? 0 : 1]);
    r->step = args->count == 3 ? jinja_to_index(m, args->values[2]) : 1;
    if (r->step == 0) jinja_fail(m, "range() arg 3 must not be zero");
    bool up = r->step > 0;
    if (up ? r->start < r->stop : r->start > r->stop) {
        uint64_t distance =
            up ? (uint64_t)r->stop - (uint64_t)r->start : (uint64_t)r->start - (uint64_t)r->stop;
        uint64_t step = up ? (uint64_t)r->step : -(uint64_t)r->step;
        uint64_t count = (distance - 1) / step + 1;
        if (count > MAX_RANGE) {
            jinja_fail(m, "Range too big. The sandbox blocks ranges larger than MAX_RANGE (%d).",
                       MAX_RANGE);
        }
        r->count = (size_t)count;
    }
    Value v = {.type = V_RANGE, .from_template = FROM_TEMPLATE, .as.range = r};
    for (size_t i = 0; i < args->count; i++) v.from_template &= args->values[i].from_template;
    return v;
}

static BUILTIN(make_dict) {
    Value v = jinja_value_dict(m);
    jinja_dict_update(m, v.as.dict, args);
    return v;
}

static BUILTIN(make_namespace) {
    Value v = make_dict(m, self, a, args);
    for (size_t i = 0; i < v.as.dict->count; i++) {
        Value key = v.as.dict->entries[i].key;
        if (key.type == V_STRING && key.as.text->length && key.as.text->bytes[0] == '_') {
            jinja_fail(m,
                       "Chat templates cannot store underscore-prefixed attributes on a namespace");
        }
    }
    v.type = V_NAMESPACE;
    return v;
}

static BUILTIN(make_cycler) {
    if (args->count == 0) jinja_fail(m, "at least one item has to be provided");
    Cycler *c = NEW(m, Cycler);
    c->items = jinja_value_list(m, V_LIST, args->values, args->count).as.list;
    return (Value){.type = V_CYCLER, .from_template = FROM_TEMPLATE, .as.cycler = c};
}

static BUILTIN(make_joiner) {
    Joiner *j = NEW(m, Joiner);
    j->separator = jinja_value_or(a[0], jinja_value_text(m, jinja_text_c(m, ", ")));
    return (Value){.type = V_JOINER, .from_template = FROM_TEMPLATE, .as.joiner = j};
}

static BUILTIN(raise_exception) {
    Text message = jinja_to_text(m, a[0]);
    jinja_fail_verbatim(m, message.bytes, message.length);
}

/* Writes one conversion of strftime: "%", flags, width and letter. The platform's flags and widths
 * work as in Python, which calls the same function. */
static void build_time(Machine *m, Builder *b, Text conversion) {
    char format[32], text[256];
    char last = (char)conversion.bytes[conversion.length - 1];
    if (conversion.length >= sizeof format - 1) jinja_fail(m, "strftime_now: invalid format");
    if (last == 'z' || last == 'Z') return; /* Python's now() has no time zone */
    if (last == 'f') {                      /* microseconds are not known here */
        jinja_build_c(m, b, "000000", jinja_text_from_template(conversion));
        return;
    }
    memcpy(format, conversion.bytes, conversion.length);
    memcpy(format + conversion.length, "|",
           2); /* strftime returns 0 on failure: no result is empty */
    size_t length = strftime(text, sizeof text, format, &m->now);
    if (length == 0) jinja_fail(m, "strftime_now: the result is too long");
    jinja_build_bytes(m, b, text, length - 1, jinja_text_from_template(conversion));
}

/* strftime: hands each conversion (%, flags, width, letter) to build_time and copies all other
 * bytes. */
static Text format_time(Machine *m, Text t) {
    Builder b = {0};
    for (size_t at = 0; at < t.length;) {
        size_t end = at;
        if (t.bytes[at] == '%') {
            end++;
            while (end < t.length && t.bytes[end] && strchr("_-0^#123456789EO", t.bytes[end]))
                end++;
        }
        bool has_letter = end > at && end < t.length && t.bytes[end] < 0x80 && t.bytes[end] != 0;
        if (has_letter)
            build_time(m, &b, jinja_text_cut(t, at, end + 1));
        else
            jinja_build(m, &b, jinja_text_cut(t, at, end == at ? at + 1 : end));
        at = has_letter || end == at ? end + 1 : end;
    }
    return jinja_built(&b);
}

static BUILTIN(strftime_now) {
    if (a[0].type != V_STRING) jinja_fail(m, "strftime_now: the format must be a string");
    return jinja_value_text(m, format_time(m, *a[0].as.text));
}

const Builtin jinja_globals[] = {
    {"cycler", make_cycler, NULL, 0},
    {"dict", make_dict, NULL, 0},
    {"joiner", make_joiner, "sep", 0},
    {"namespace", make_namespace, NULL, 0},
    {"raise_exception", raise_exception, "message", 1},
    {"range", make_range, NULL, 0},
    {"strftime_now", strftime_now, "format", 1},
    {0},
};
