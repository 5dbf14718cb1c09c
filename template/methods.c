#include "template/methods.h"

#include <string.h>

#include "template/case.h"
#include "template/character_classes.h"
#include "template/equality.h"
#include "template/format_braces.h"
#include "template/print.h"

static Text text_of(Machine *m, Value v) {
    if (v.type == V_UNDEFINED) jinja_fail_undefined(m, v);
    if (v.type != V_STRING) jinja_fail(m, "expected a string, not '%s'", jinja_type_name(v));
    return *v.as.text;
}

/* ---- cutting and joining ---- */

static Value methods_strip(Machine *m, Value self, Value chars, int sides) {
    Text t = *self.as.text;
    return jinja_value_like(m, self,
                            jinja_given(chars)
                                ? jinja_text_strip_chars(m, t, text_of(m, chars), sides)
                                : jinja_text_strip(m, t, sides));
}
static BUILTIN(str_strip) {
    return methods_strip(m, self, a[0], STRIP_LEFT | STRIP_RIGHT);
}
static BUILTIN(str_lstrip) {
    return methods_strip(m, self, a[0], STRIP_LEFT);
}
static BUILTIN(str_rstrip) {
    return methods_strip(m, self, a[0], STRIP_RIGHT);
}

typedef struct Pieces {
    Machine *m;
    Value self;
    List list;
    size_t capacity;
} Pieces;

static void add_piece(Pieces *p, size_t from, size_t to) {
    Value piece = jinja_value_like(p->m, p->self, jinja_text_cut(*p->self.as.text, from, to));
    jinja_list_append(p->m, &p->list, &p->capacity, piece);
}

/* The words between white space. After `limit` of them the rest is one piece; -1: no limit. */
static void split_words(Pieces *p, int64_t limit) {
    Text t = *p->self.as.text;
    size_t at = 0, size;
    jinja_spend_slow(p->m, t.length);
    for (;;) {
        while (at < t.length && jinja_char_is_space(jinja_text_char(t, at, &size))) at += size;
        if (at == t.length) return;
        size_t start = at;
        if (limit == 0) {
            add_piece(p, start, t.length);
            return;
        }
        while (at < t.length && !jinja_char_is_space(jinja_text_char(t, at, &size))) at += size;
        add_piece(p, start, at);
        if (limit > 0) limit--;
    }
}

/* Adds the words of the text from the last to the first, for rsplit() without a separator. After
 * `limit` words the rest of the text is one piece; a negative limit is none. */
static void rsplit_words(Pieces *p, int64_t limit) {
    Text t = *p->self.as.text;
    size_t size, to = t.length;
    jinja_spend_slow(p->m, t.length);
    for (;;) {
        to = jinja_text_strip(p->m, jinja_text_cut(t, 0, to), STRIP_RIGHT).length;
        if (to == 0) return;
        size_t from = to;
        if (limit == 0) {
            add_piece(p, 0, to);
            return;
        }
        while (from > 0) {
            size_t before = jinja_text_before(t, from);
            if (jinja_char_is_space(jinja_text_char(t, before, &size))) break;
            from = before;
        }
        add_piece(p, from, to);
        to = from;
        if (limit > 0) limit--;
    }
}

static void split_at(Pieces *p, Text separator, int64_t limit) {
    Text t = *p->self.as.text;
    size_t from = 0, at;
    while (limit != 0 && (at = jinja_text_find(p->m, t, separator, from)) != SIZE_MAX) {
        add_piece(p, from, at);
        from = at + separator.length;
        if (limit > 0) limit--;
    }
    add_piece(p, from, t.length);
}

static void rsplit_at(Pieces *p, Text separator, int64_t limit) {
    Text t = *p->self.as.text;
    size_t to = t.length, at;
    while (limit != 0 &&
           (at = jinja_text_find_last(p->m, jinja_text_cut(t, 0, to), separator)) != SIZE_MAX) {
        add_piece(p, at + separator.length, to);
        to = at;
        if (limit > 0) limit--;
    }
    add_piece(p, 0, to);
}

static Value methods_split(Machine *m, Value self, const Value *a, bool from_right) {
    Pieces p = {.m = m, .self = self};
    int64_t limit = a[1].type == V_MISSING ? -1 : jinja_to_index(m, a[1]);
    if (jinja_given(a[0])) {
        Text separator = text_of(m, a[0]);
        if (separator.length == 0) jinja_fail(m, "empty separator");
        (from_right ? rsplit_at : split_at)(&p, separator, limit);
    } else {
        (from_right ? rsplit_words : split_words)(&p, limit);
    }
    for (size_t i = 0, k = p.list.count; from_right && i + 1 < k--;
         i++) { /* they were found last to first */
        Value swap = p.list.items[i];
        p.list.items[i] = p.list.items[k], p.list.items[k] = swap;
    }
    return jinja_value_list(m, V_LIST, p.list.items, p.list.count);
}
static BUILTIN(str_split) {
    return methods_split(m, self, a, false);
}
static BUILTIN(str_rsplit) {
    return methods_split(m, self, a, true);
}

static BUILTIN(str_splitlines) {
    Pieces p = {.m = m, .self = self};
    Text t = *self.as.text;
    bool keep = a[0].type != V_MISSING && jinja_truth(m, a[0]);
    jinja_spend_slow(m, t.length);
    for (size_t at = 0, next; at < t.length; at = next) {
        size_t end = jinja_text_line(t, at, &next);
        add_piece(&p, at, keep ? next : end);
    }
    return jinja_value_list(m, V_LIST, p.list.items, p.list.count);
}

static Value partition(Machine *m, Value self, Value separator, bool last) {
    Text t = *self.as.text, s = text_of(m, separator);
    if (s.length == 0) jinja_fail(m, "empty separator");
    size_t at = last ? jinja_text_find_last(m, t, s) : jinja_text_find(m, t, s, 0);
    bool found = at != SIZE_MAX;
    size_t end = found ? at + s.length : last ? 0 : t.length;
    if (!found) at = end;
    Value *items = NEW_ARRAY(m, 3, Value);
    items[0] = jinja_value_like(m, self, jinja_text_cut(t, 0, at));
    items[1] = jinja_value_like(m, self, found ? s : (Text){0});
    items[2] = jinja_value_like(m, self, jinja_text_cut(t, end, t.length));
    return jinja_value_list(m, V_TUPLE, items, 3);
}
static BUILTIN(str_partition) {
    return partition(m, self, a[0], false);
}
static BUILTIN(str_rpartition) {
    return partition(m, self, a[0], true);
}

static BUILTIN(str_join) {
    Builder b = {0};
    Value item;
    Iter *it = jinja_iterate(m, a[0]);
    for (bool first = true; jinja_next_item(m, it, &item); first = false) {
        if (!first) jinja_build(m, &b, *self.as.text);
        bool escape = self.markup && !(item.type == V_STRING && item.markup);
        jinja_build(m, &b,
                    escape ? jinja_text_escape(m, jinja_to_text(m, item)) : text_of(m, item));
    }
    return jinja_value_like(m, self, jinja_built(&b));
}

static BUILTIN(str_replace) {
    Text new = text_of(m, a[1]);
    if (self.markup && !a[1].markup) new = jinja_text_escape(m, new);
    int64_t count = a[2].type == V_MISSING ? -1 : jinja_to_index(m, a[2]);
    return jinja_value_like(m, self,
                            jinja_text_replace(m, *self.as.text, text_of(m, a[0]), new, count));
}

static BUILTIN(str_removeprefix) {
    Text t = *self.as.text, prefix = text_of(m, a[0]);
    return jinja_value_like(
        m, self, jinja_text_starts(t, prefix) ? jinja_text_cut(t, prefix.length, t.length) : t);
}
static BUILTIN(str_removesuffix) {
    Text t = *self.as.text, suffix = text_of(m, a[0]);
    bool found = suffix.length && jinja_text_ends(t, suffix);
    return jinja_value_like(m, self, found ? jinja_text_cut(t, 0, t.length - suffix.length) : t);
}

/* ---- searching ---- */

/* Stores the byte offsets of the part of the string between the character indexes `start` and
 * `end`. Returns false where `start` lies after `end`: then not even "" is found. */
static bool part_of(Machine *m, Text t, Value start, Value end, size_t *from, size_t *to) {
    *from = 0, *to = t.length;
    if (!jinja_given(start) && !jinja_given(end)) return true;
    int64_t count = (int64_t)jinja_text_count(m, t);
    int64_t first = jinja_given(start) ? jinja_to_index(m, start) : 0;
    int64_t last = jinja_given(end) ? jinja_to_index(m, end) : count;
    if (first < 0) first = first + count < 0 ? 0 : first + count;
    if (last < 0) last = last + count < 0 ? 0 : last + count;
    if (last > count) last = count;
    if (first > last) return false;
    *from = jinja_text_offset(m, t, (size_t)first);
    if (jinja_given(end)) *to = jinja_text_offset(m, t, (size_t)last);
    return true;
}

static Value methods_find(Machine *m, Value self, const Value *a, bool last, bool must) {
    Text t = *self.as.text, needle = text_of(m, a[0]);
    size_t from, to, at = SIZE_MAX;
    if (part_of(m, t, a[1], a[2], &from, &to)) {
        Text part = jinja_text_cut(t, from, to);
        at = last ? jinja_text_find_last(m, part, needle) : jinja_text_find(m, part, needle, 0);
    }
    if (at == SIZE_MAX && must) jinja_fail(m, "substring not found");
    return jinja_value_int(
        at == SIZE_MAX ? -1 : (int64_t)jinja_text_count(m, jinja_text_cut(t, 0, from + at)));
}
static BUILTIN(str_find) {
    return methods_find(m, self, a, false, false);
}
static BUILTIN(str_rfind) {
    return methods_find(m, self, a, true, false);
}
static BUILTIN(str_index) {
    return methods_find(m, self, a, false, true);
}
static BUILTIN(str_rindex) {
    return methods_find(m, self, a, true, true);
}

static BUILTIN(str_count) {
    Text needle = text_of(m, a[0]);
    size_t from, to;
    int64_t count = 0;
    if (!part_of(m, *self.as.text, a[1], a[2], &from, &to)) return jinja_value_int(0);
    Text t = jinja_text_cut(*self.as.text, from, to);
    if (needle.length == 0) return jinja_value_int((int64_t)jinja_text_count(m, t) + 1);
    for (size_t at = 0; (at = jinja_text_find(m, t, needle, at)) != SIZE_MAX; at += needle.length)
        count++;
    return jinja_value_int(count);
}

/* Whether a prefix or suffix matches; of a tuple, any may. */
static Value has_affix(Machine *m, Value self, const Value *a, bool (*matches)(Text, Text)) {
    size_t from, to;
    List options = {(Value[]){a[0]}, 1};
    if (a[0].type == V_TUPLE) options = *a[0].as.list;
    bool inside = part_of(m, *self.as.text, a[1], a[2], &from, &to), found = false;
    for (size_t i = 0; i < options.count && !found; i++) {
        Text affix = text_of(m, options.items[i]);
        jinja_spend(m, affix.length);
        found = inside && matches(jinja_text_cut(*self.as.text, from, to), affix);
    }
    return jinja_value_bool(found);
}
static BUILTIN(str_startswith) {
    return has_affix(m, self, a, jinja_text_starts);
}
static BUILTIN(str_endswith) {
    return has_affix(m, self, a, jinja_text_ends);
}

/* ---- case and kinds of characters ---- */

static BUILTIN(str_upper) {
    return jinja_value_like(m, self, jinja_text_case(m, *self.as.text, CASE_UPPER));
}
static BUILTIN(str_lower) {
    return jinja_value_like(m, self, jinja_text_case(m, *self.as.text, CASE_LOWER));
}
static BUILTIN(str_casefold) {
    return jinja_value_like(m, self, jinja_text_case(m, *self.as.text, CASE_FOLD));
}
static BUILTIN(str_capitalize) {
    return jinja_value_like(m, self, jinja_text_capitalize(m, *self.as.text));
}
static BUILTIN(str_title) {
    return jinja_value_like(m, self, jinja_text_title(m, *self.as.text));
}

static BUILTIN(str_swapcase) {
    Text t = *self.as.text;
    Builder b = {0};
    for (size_t at = 0, size; at < t.length; at += size) {
        bool upper = jinja_char_is_upper(jinja_text_char(t, at, &size));
        jinja_build(
            m, &b,
            jinja_text_case(m, jinja_text_cut(t, at, at + size), upper ? CASE_LOWER : CASE_UPPER));
    }
    return jinja_value_like(m, self, jinja_built(&b));
}

static bool is_alnum(uint32_t c) {
    return jinja_char_is_alpha(c) || jinja_char_is_numeric(c);
}
static bool is_decimal(uint32_t c) {
    return jinja_char_is_digit(c) && c != 0xB2 && c != 0xB3 && c != 0xB9 &&
           (c < 0x2070 || c > 0x2089);
}
static bool is_ascii(uint32_t c) {
    return c < 0x80;
}

static Value all_are(Machine *m, Value self, bool (*kind)(uint32_t), bool if_empty) {
    Text t = *self.as.text;
    jinja_spend_slow(m, t.length);
    for (size_t at = 0, size; at < t.length; at += size) {
        if (!kind(jinja_text_char(t, at, &size))) return jinja_value_bool(false);
    }
    return jinja_value_bool(t.length > 0 || if_empty);
}
static BUILTIN(str_isalpha) {
    return all_are(m, self, jinja_char_is_alpha, false);
}
static BUILTIN(str_isalnum) {
    return all_are(m, self, is_alnum, false);
}
static BUILTIN(str_isdigit) {
    return all_are(m, self, jinja_char_is_digit, false);
}
static BUILTIN(str_isdecimal) {
    return all_are(m, self, is_decimal, false);
}
static BUILTIN(str_isnumeric) {
    return all_are(m, self, jinja_char_is_numeric, false);
}
static BUILTIN(str_isspace) {
    return all_are(m, self, jinja_char_is_space, false);
}
static BUILTIN(str_isascii) {
    return all_are(m, self, is_ascii, true);
}
static BUILTIN(str_isprintable) {
    return all_are(m, self, jinja_char_is_printable, true);
}

static BUILTIN(str_islower) {
    return jinja_value_bool(jinja_text_is_lower(m, *self.as.text));
}
static BUILTIN(str_isupper) {
    return jinja_value_bool(jinja_text_is_upper(m, *self.as.text));
}

/* ---- padding and formatting ---- */

/* The one character of padding that the call gives, or a space. */
static Text fill_of(Machine *m, const Value *a) {
    Text fill = jinja_given(a[1]) ? text_of(m, a[1]) : jinja_text_c(m, " ");
    if (jinja_text_count(m, fill) != 1)
        jinja_fail(m, "The fill character must be exactly one character long");
    return fill;
}
static BUILTIN(str_ljust) {
    Text t = *self.as.text, fill = fill_of(m, a);
    int64_t room = jinja_to_index(m, a[0]) - (int64_t)jinja_text_count(m, t);
    return jinja_value_like(m, self, jinja_text_pad(m, t, fill, 0, room));
}
static BUILTIN(str_rjust) {
    Text t = *self.as.text, fill = fill_of(m, a);
    int64_t room = jinja_to_index(m, a[0]) - (int64_t)jinja_text_count(m, t);
    return jinja_value_like(m, self, jinja_text_pad(m, t, fill, room, 0));
}
static BUILTIN(str_center) {
    return jinja_value_like(
        m, self, jinja_text_center(m, *self.as.text, fill_of(m, a), jinja_to_index(m, a[0])));
}

static BUILTIN(str_zfill) {
    Text t = *self.as.text;
    size_t sign = t.length && (t.bytes[0] == '-' || t.bytes[0] == '+');
    Builder b = {0};
    jinja_build(m, &b, jinja_text_cut(t, 0, sign));
    jinja_build_repeat(m, &b, jinja_text_c(m, "0"),
                       jinja_to_index(m, a[0]) - (int64_t)jinja_text_count(m, t));
    jinja_build(m, &b, jinja_text_cut(t, sign, t.length));
    return jinja_value_like(m, self, jinja_built(&b));
}

static BUILTIN(str_expandtabs) {
    Text t = *self.as.text;
    int64_t tab = a[0].type == V_MISSING ? 8 : jinja_to_index(m, a[0]), column = 0;
    Builder b = {0};
    for (size_t at = 0, size; at < t.length; at += size) {
        uint32_t c = jinja_text_char(t, at, &size);
        if (c == '\t') {
            int64_t spaces = tab > 0 ? tab - column % tab : 0;
            jinja_build_repeat(m, &b, jinja_text_c(m, " "), spaces);
            column += spaces;
        } else {
            jinja_build(m, &b, jinja_text_cut(t, at, at + size));
            column = c == '\n' || c == '\r' ? 0 : column + 1;
        }
    }
    return jinja_value_like(m, self, jinja_built(&b));
}

static BUILTIN(str_format) {
    return jinja_value_like(m, self, jinja_format_braces(m, self, args));
}

static BUILTIN(str_format_map) {
    if (a[0].type != V_DICT) jinja_fail(m, "format_map() needs a mapping");
    const Dict *d = a[0].as.dict;
    Args named = {.n_keywords = d->count};
    named.keywords = NEW_ARRAY(m, d->count, Text);
    named.keyword_values = NEW_ARRAY(m, d->count, Value);
    for (size_t i = 0; i < d->count; i++) {
        if (d->entries[i].key.type == V_STRING) named.keywords[i] = *d->entries[i].key.as.text;
        named.keyword_values[i] = d->entries[i].value;
    }
    return jinja_value_like(m, self, jinja_format_braces(m, self, &named));
}

/* ---- lists, tuples, ranges ---- */

static BUILTIN(list_count) {
    int64_t count = 0;
    Value item;
    for (Iter *it = jinja_iterate(m, self); jinja_next_item(m, it, &item);)
        count += jinja_equal(m, item, a[0]);
    return jinja_value_int(count);
}

static BUILTIN(list_index) {
    int64_t index = 0, size = jinja_length(m, self);
    int64_t start = jinja_given(a[1]) ? jinja_to_index(m, a[1]) : 0,
            end = jinja_given(a[2]) ? jinja_to_index(m, a[2]) : size;
    Value item;
    if (start < 0) start += size;
    if (end < 0) end += size;
    for (Iter *it = jinja_iterate(m, self); jinja_next_item(m, it, &item); index++) {
        if (index >= start && index < end && jinja_equal(m, item, a[0]))
            return jinja_value_int(index);
    }
    jinja_fail(m, "the item is not in the list");
}

static BUILTIN(copy) {
    return self; /* nothing can change a list or a dict */
}

/* ---- dicts ---- */

static BUILTIN(dict_get) {
    Value *found = jinja_dict_find(m, self.as.dict, a[0]);
    return found ? *found : jinja_value_or(a[1], none);
}

static BUILTIN(dict_keys) {
    return jinja_value_view(m, self, VIEW_KEYS);
}
static BUILTIN(dict_values) {
    return jinja_value_view(m, self, VIEW_VALUES);
}
static BUILTIN(dict_items) {
    return jinja_value_view(m, self, VIEW_ITEMS);
}

/* ---- Jinja's own objects ---- */

static BUILTIN(loop_cycle) {
    if (args->count == 0) jinja_fail(m, "no items for cycling given");
    return args->values[(size_t)self.as.loop->index0 % args->count];
}

static BUILTIN(loop_changed) {
    Value now = jinja_value_list(m, V_TUPLE, args->values, args->count);
    bool changed = !jinja_equal(m, self.as.loop->last_changed, now);
    self.as.loop->last_changed = now;
    return jinja_value_bool(changed);
}

static BUILTIN(cycler_next) {
    Cycler *c = self.as.cycler;
    Value v = c->items->items[c->at];
    c->at = (c->at + 1) % c->items->count;
    return v;
}

static BUILTIN(cycler_reset) {
    self.as.cycler->at = 0;
    return none;
}

static BUILTIN(float_is_integer) {
    double f = self.as.real;
    return jinja_value_bool(f - f == 0 && (f >= 9e15 || f <= -9e15 || f == (double)(int64_t)f));
}

static const Builtin str_methods[] = {
    {"capitalize", str_capitalize, "", 0},
    {"casefold", str_casefold, "", 0},
    {"center", str_center, "/,/", 1},
    {"count", str_count, "/,/,/", 1},
    {"endswith", str_endswith, "/,/,/", 1},
    {"expandtabs", str_expandtabs, "tabsize", 0},
    {"find", str_find, "/,/,/", 1},
    {"format", str_format, NULL, 0},
    {"format_map", str_format_map, "/", 1},
    {"index", str_index, "/,/,/", 1},
    {"isalnum", str_isalnum, "", 0},
    {"isalpha", str_isalpha, "", 0},
    {"isascii", str_isascii, "", 0},
    {"isdecimal", str_isdecimal, "", 0},
    {"isdigit", str_isdigit, "", 0},
    {"islower", str_islower, "", 0},
    {"isnumeric", str_isnumeric, "", 0},
    {"isprintable", str_isprintable, "", 0},
    {"isspace", str_isspace, "", 0},
    {"isupper", str_isupper, "", 0},
    {"join", str_join, "/", 1},
    {"ljust", str_ljust, "/,/", 1},
    {"lower", str_lower, "", 0},
    {"lstrip", str_lstrip, "/", 0},
    {"partition", str_partition, "/", 1},
    {"removeprefix", str_removeprefix, "/", 1},
    {"removesuffix", str_removesuffix, "/", 1},
    {"replace", str_replace, "/,/,/", 2},
    {"rfind", str_rfind, "/,/,/", 1},
    {"rindex", str_rindex, "/,/,/", 1},
    {"rjust", str_rjust, "/,/", 1},
    {"rpartition", str_rpartition, "/", 1},
    {"rsplit", str_rsplit, "sep,maxsplit", 0},
    {"rstrip", str_rstrip, "/", 0},
    {"split", str_split, "sep,maxsplit", 0},
    {"splitlines", str_splitlines, "keepends", 0},
    {"startswith", str_startswith, "/,/,/", 1},
    {"strip", str_strip, "/", 0},
    {"swapcase", str_swapcase, "", 0},
    {"title", str_title, "", 0},
    {"upper", str_upper, "", 0},
    {"zfill", str_zfill, "/", 1},
    {0},
};
static const Builtin list_methods[] = {
    {"copy", copy, "", 0}, {"count", list_count, "/", 1}, {"index", list_index, "/,/,/", 1}, {0}};
static const Builtin tuple_methods[] = {
    {"count", list_count, "/", 1}, {"index", list_index, "/,/,/", 1}, {0}};
static const Builtin dict_methods[] = {{"copy", copy, "", 0},          {"get", dict_get, "/,/", 1},
                                       {"items", dict_items, "", 0},   {"keys", dict_keys, "", 0},
                                       {"values", dict_values, "", 0}, {0}};
static const Builtin loop_methods[] = {
    {"cycle", loop_cycle, NULL, 0}, {"changed", loop_changed, NULL, 0}, {0}};
static const Builtin cycler_methods[] = {
    {"next", cycler_next, "", 0}, {"reset", cycler_reset, "", 0}, {0}};
static const Builtin float_methods[] = {{"is_integer", float_is_integer, "", 0}, {0}};

/* Methods that would change a list or a dict, which the sandbox forbids. */
static const char *const unsafe_list[] = {"append", "clear",  "pop",    "reverse", "insert",
                                          "sort",   "extend", "remove", NULL};
static const char *const unsafe_dict[] = {"clear", "pop", "popitem", "setdefault", "update", NULL};

const Builtin *jinja_find_method(Value object, Text name, bool *unsafe) {
    const Builtin *methods = NULL;
    const char *const *forbidden = NULL;
    switch (object.type) {
    case V_STRING:
        methods = str_methods;
        break;
    case V_LIST:
        methods = list_methods, forbidden = unsafe_list;
        break;
    case V_TUPLE:
    case V_RANGE:
        methods = tuple_methods;
        break;
    case V_DICT:
        methods = dict_methods, forbidden = unsafe_dict;
        break;
    case V_LOOP:
        methods = loop_methods;
        break;
    case V_CYCLER:
        methods = cycler_methods;
        break;
    case V_FLOAT:
        methods = float_methods;
        break;
    default:
        break;
    }
    for (; forbidden && *forbidden; forbidden++)
        *unsafe = *unsafe || jinja_text_is(name, *forbidden);
    return methods ? jinja_find_builtin(methods, name) : NULL;
}
