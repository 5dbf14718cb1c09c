/* Filters of sequences: jinja2's filters.py. What is a generator there is lazy here, too: it
 * computes an item when it is asked for, and can be read once. */
#include "template/list_filters.h"

#include "template/access.h"
#include "template/arithmetic.h"
#include "template/case.h"
#include "template/equality.h"
#include "template/print.h"

#include <string.h>

/* ---- attributes by path: "a.b.0" ---- */

/* item.a.b.0 for the path "a.b.0", which may also be a number. An undefined value on the way
 * becomes `otherwise`, if it is given. */
static Value by_path(Machine *m, Value item, Value path, Value otherwise) {
    if (!jinja_given(path)) return item;
    Text rest = path.type == V_STRING ? *path.as.text : (Text){0}, part;
    for (bool more = true; more;) {
        more = jinja_text_next_part(m, &rest, ".", &part);
        Value key = path.type == V_STRING ? jinja_value_text(m, part) : path;
        int64_t index;
        bool over;
        bool digits = part.length && part.bytes[0] >= '0' && part.bytes[0] <= '9';
        if (digits && jinja_parse_int(part, 10, &index, &over) && !over)
            key = jinja_value_int(index);
        item = jinja_get_item(m, item, key);
        if (item.type == V_UNDEFINED && jinja_given(otherwise)) item = otherwise;
    }
    return item;
}

static Value fold_case(Machine *m, Value v, bool case_sensitive) {
    if (case_sensitive || v.type != V_STRING) return v;
    return jinja_value_like(m, v, jinja_text_case(m, *v.as.text, CASE_LOWER));
}

BUILTIN(jinja_filter_sum) {
    Value sum = jinja_value_or(a[1], jinja_value_int(0)), item;
    if (sum.type == V_STRING) jinja_fail(m, "sum() can't sum strings");
    for (Iter *it = jinja_iterate(m, self); jinja_next_item(m, it, &item);) {
        sum = jinja_arithmetic(m, OP_ADD, sum, by_path(m, item, a[0], none));
    }
    return sum;
}

/* ---- sequences ---- */

BUILTIN(jinja_filter_length) {
    return jinja_value_int(jinja_length(m, self));
}

BUILTIN(jinja_filter_list) {
    List list = jinja_collect(m, self);
    return jinja_value_list(m, V_LIST, list.items, list.count);
}

BUILTIN(jinja_filter_first) {
    Value item;
    if (jinja_next_item(m, jinja_iterate(m, self), &item)) return item;
    return jinja_value_undefined(m, "No first item, sequence was empty.", none, none);
}

BUILTIN(jinja_filter_last) {
    Value item;
    Iter *it = jinja_iterate_reversed(m, self);
    if (!it) jinja_fail(m, "'%s' object is not reversible", jinja_type_name(self));
    if (jinja_next_item(m, it, &item)) return item;
    return jinja_value_undefined(m, "No last item, sequence was empty.", none, none);
}

BUILTIN(jinja_filter_reverse) {
    if (self.type == V_STRING) return jinja_get_slice(m, self, none, none, jinja_value_int(-1));
    Iter *it = jinja_iterate_reversed(m, self);
    if (it) return jinja_value_iterator(it);
    List items = jinja_collect(m, self); /* an iterator */
    return jinja_get_slice(m, jinja_value_list(m, V_LIST, items.items, items.count), none, none,
                           jinja_value_int(-1));
}

BUILTIN(jinja_filter_join) {
    Text separator = {0};
    if (a[0].type != V_MISSING) separator = jinja_to_text(m, a[0]);
    Builder b = {0};
    Value item;
    Iter *it = jinja_iterate(m, self);
    for (bool first = true; jinja_next_item(m, it, &item); first = false) {
        if (!first) jinja_build(m, &b, separator);
        jinja_build_str(m, &b, by_path(m, item, a[1], none));
    }
    return jinja_value_text(m, jinja_built(&b));
}

BUILTIN(jinja_filter_default) {
    bool absent = self.type == V_UNDEFINED || (jinja_flag(m, a[1]) && !jinja_truth(m, self));
    return absent ? jinja_value_or(a[0], jinja_value_text(m, (Text){0})) : self;
}

BUILTIN(jinja_filter_attr) {
    if (self.type == V_UNDEFINED) jinja_fail_undefined(m, self);
    if (a[0].type != V_STRING) jinja_fail(m, "attr: the name must be a string");
    Value v = jinja_get_own_attr(m, self, *a[0].as.text);
    return v.type == V_MISSING ? jinja_value_undefined(m, NULL, self, a[0]) : v;
}

static Value new_iterator(Machine *m, bool (*next)(Machine *, Iter *, Value *), Value source) {
    Iter *it = NEW(m, Iter);
    it->next = next;
    it->source = source;
    return jinja_value_iterator(it);
}

/* The next item that a lazy filter reads. As in jinja2, a false value has none. */
static bool next_source(Machine *m, Iter *it, Value *item) {
    if (!it->inner) {
        if (!jinja_truth(m, it->source)) it->source = jinja_value_list(m, V_LIST, NULL, 0);
        it->inner = jinja_iterate(m, it->source);
    }
    return jinja_next_item(m, it->inner, item);
}

static bool next_pair(Machine *m, Iter *it, Value *item) {
    if (!it->inner && it->source.type == V_UNDEFINED) return false;
    if (!it->inner) {
        if (it->source.type != V_DICT) jinja_fail(m, "Can only get item pairs from a mapping.");
        it->inner = jinja_iterate(m, jinja_value_view(m, it->source, VIEW_ITEMS));
    }
    return jinja_next_item(m, it->inner, item);
}

BUILTIN(jinja_filter_items) {
    return new_iterator(m, next_pair, self);
}

static Value keyword(Machine *m, const Args *args, const char *name) {
    const Value *found = jinja_find_keyword(args, jinja_text_c(m, name));
    return found ? *found : missing;
}

/* The arguments without the first `n` positional ones. */
static const Args *after(Machine *m, const Args *args, size_t n) {
    Args *rest = NEW(m, Args);
    *rest = *args;
    rest->values += n, rest->count -= n;
    return rest;
}

static NORETURN void unknown(Machine *m, const char *what, Value name) {
    if (name.type == V_UNDEFINED) jinja_fail_undefined(m, name);
    Text t = jinja_repr_text(m, name);
    jinja_fail(m, "No %s named %.*s.", what, jinja_text_shown(t), (const char *)t.bytes);
}

static bool next_mapped(Machine *m, Iter *it, Value *item) {
    if (!next_source(m, it, item)) return false;
    const Args *args = it->args;
    Value attribute = keyword(m, args, "attribute");
    if (args->count == 0) {
        bool has_default = keyword(m, args, "default").type != V_MISSING;
        if (attribute.type == V_MISSING) jinja_fail(m, "map requires a filter argument");
        if (args->n_keywords > 1 + (size_t)has_default)
            jinja_fail(m, "map: unexpected keyword argument");
        *item = by_path(m, *item, attribute, keyword(m, args, "default"));
        return true;
    }
    Value name = args->values[0];
    const Builtin *filter =
        name.type == V_STRING ? jinja_find_builtin(m->builtins->filters, *name.as.text) : NULL;
    if (!filter) unknown(m, "filter", name);
    *item = jinja_call_builtin(m, filter, *item, after(m, args, 1));
    return true;
}

BUILTIN(jinja_filter_map) {
    Value v = new_iterator(m, next_mapped, self);
    v.as.iter->args = args;
    return v;
}

/* Finds the next item for select, reject, selectattr and rejectattr. The test that the arguments
 * name decides, or without one the item's truth. */
static bool next_selected(Machine *m, Iter *it, Value *item) {
    size_t used = it->by_attribute;
    while (next_source(m, it, item)) {
        Value tested = *item;
        if (it->by_attribute) {
            if (it->args->count == 0) jinja_fail(m, "Missing parameter for attribute name");
            tested = by_path(m, *item, it->args->values[0], none);
        }
        bool passed;
        if (it->args->count > used) {
            Value name = it->args->values[used];
            const Builtin *test = name.type == V_STRING
                                      ? jinja_find_builtin(m->builtins->tests, *name.as.text)
                                      : NULL;
            if (!test) unknown(m, "test", name);
            passed =
                jinja_truth(m, jinja_call_builtin(m, test, tested, after(m, it->args, used + 1)));
        } else {
            passed = jinja_truth(m, tested);
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
BUILTIN(jinja_filter_select) {
    return select_items(m, self, args, false, false);
}
BUILTIN(jinja_filter_reject) {
    return select_items(m, self, args, true, false);
}
BUILTIN(jinja_filter_selectattr) {
    return select_items(m, self, args, false, true);
}
BUILTIN(jinja_filter_rejectattr) {
    return select_items(m, self, args, true, true);
}

/* A lazy filter with a copy of its arguments. */
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
    if (!it->inner) it->inner = jinja_iterate(m, it->source);
    while (jinja_next_item(m, it->inner, item)) {
        Value key = by_path(m, *item, it->args->values[1], none);
        key = fold_case(m, key, jinja_flag(m, it->args->values[0]));
        if (jinja_dict_find(m, it->seen, key)) continue;
        jinja_dict_append(m, it->seen, key, none);
        return true;
    }
    return false;
}

BUILTIN(jinja_filter_unique) {
    Value v = new_lazy(m, next_unique, self, a, 2);
    v.as.iter->seen = NEW(m, Dict);
    return v;
}

/* Splits the items into lists of `size`; the last list is filled up with `fill`, if it is given. */
static List batches(Machine *m, List items, int64_t size, Value fill) {
    size_t each = size < 1 ? items.count + 1 : (size_t)size, n = 0;
    Value *lists = NEW_ARRAY(m, items.count / each + 2, Value);
    if (size == 0 && items.count)
        lists[n++] = jinja_value_list(m, V_LIST, NULL, 0); /* jinja2 begins with it */
    for (size_t i = 0; i < items.count; i += each) {
        size_t have = items.count - i < each ? items.count - i : each;
        size_t count = jinja_given(fill) && size > 0 ? each : have;
        Value *batch = NEW_ARRAY(m, count, Value);
        for (size_t k = 0; k < count; k++) batch[k] = k < have ? items.items[i + k] : fill;
        lists[n++] = jinja_value_list(m, V_LIST, batch, count);
    }
    return (List){lists, n};
}

/* Splits the items into `wanted` lists of nearly equal length; lists shorter than the longest get
 * `fill`, if it is given. */
static List slices(Machine *m, List items, int64_t wanted, Value fill) {
    if (wanted == 0) jinja_fail(m, "integer division or modulo by zero");
    size_t n = wanted < 0 ? 0 : (size_t)wanted, offset = 0;
    Value *lists = NEW_ARRAY(m, n, Value);
    for (size_t i = 0; i < n; i++) {
        size_t count = items.count / n + (i < items.count % n);
        bool add = jinja_given(fill) && i >= items.count % n;
        Value *slice = NEW_ARRAY(m, count + add, Value);
        if (count) memcpy(slice, items.items + offset, count * sizeof *slice);
        if (add) slice[count] = fill;
        lists[i] = jinja_value_list(m, V_LIST, slice, count + add);
        offset += count;
    }
    return (List){lists, n};
}

/* The next of the lists that `divide` makes of all items. */
static bool next_part(Machine *m, Iter *it, Value *item,
                      List (*divide)(Machine *, List, int64_t, Value)) {
    if (!it->inner) {
        List items = jinja_collect(m, it->source);
        int64_t size = jinja_to_index(m, it->args->values[0]);
        List parts = divide(m, items, size, it->args->values[1]);
        it->inner = jinja_iterate(m, jinja_value_list(m, V_LIST, parts.items, parts.count));
    }
    return jinja_next_item(m, it->inner, item);
}

static bool next_batch(Machine *m, Iter *it, Value *item) {
    return next_part(m, it, item, batches);
}

static bool next_slice(Machine *m, Iter *it, Value *item) {
    return next_part(m, it, item, slices);
}

BUILTIN(jinja_filter_batch) {
    return new_lazy(m, next_batch, self, a, 2);
}

BUILTIN(jinja_filter_slice) {
    return new_lazy(m, next_slice, self, a, 2);
}

/* ---- order ---- */

/* Returns the value to sort an item by: the item's attribute, or for names like "a,b.c" the list of
 * these attributes. */
static Value sort_key(Machine *m, Value item, Value attribute, bool case_sensitive) {
    if (attribute.type != V_STRING) {
        return fold_case(m, by_path(m, item, attribute, none), case_sensitive);
    }
    Text rest = *attribute.as.text, path;
    Value *parts = NEW_ARRAY(m, rest.length + 1, Value);
    size_t n = 0;
    for (bool more = true; more;) {
        more = jinja_text_next_part(m, &rest, ",", &path);
        Value part = by_path(m, item, jinja_value_text(m, path), none);
        parts[n++] = fold_case(m, part, case_sensitive);
    }
    return jinja_value_list(m, V_LIST, parts, n);
}

BUILTIN(jinja_filter_sort) {
    List items = jinja_collect(m, self);
    Value *sorted = NEW_ARRAY(m, items.count, Value), *keys = NEW_ARRAY(m, items.count, Value);
    for (size_t i = 0; i < items.count; i++) {
        sorted[i] = items.items[i];
        keys[i] = sort_key(m, sorted[i], a[2], jinja_flag(m, a[1]));
    }
    jinja_sort_values(m, keys, sorted, items.count, jinja_flag(m, a[0]));
    return jinja_value_list(m, V_LIST, sorted, items.count);
}

BUILTIN(jinja_filter_dictsort) {
    Text by = a[1].type == V_MISSING ? jinja_text_c(m, "key") : jinja_to_text(m, a[1]);
    bool by_value = jinja_text_is(by, "value");
    if (!by_value && !jinja_text_is(by, "key"))
        jinja_fail(m, "You can only sort by either \"key\" or \"value\"");
    if (self.type == V_UNDEFINED) jinja_fail_undefined(m, self);
    if (self.type != V_DICT) jinja_fail(m, "dictsort: not a mapping");
    const Dict *d = self.as.dict;
    Value *pairs = NEW_ARRAY(m, d->count, Value), *keys = NEW_ARRAY(m, d->count, Value);
    for (size_t i = 0; i < d->count; i++) {
        Entry entry = d->entries[i];
        pairs[i] = jinja_value_pair(m, entry.key, entry.value);
        keys[i] = fold_case(m, by_value ? entry.value : entry.key, jinja_flag(m, a[0]));
    }
    jinja_sort_values(m, keys, pairs, d->count, jinja_flag(m, a[2]));
    return jinja_value_list(m, V_LIST, pairs, d->count);
}

/* groupby(attribute, default, case_sensitive): sorts the items by the attribute and returns a list
 * of pairs, a value with its items. Unless case_sensitive is true, values that differ only in case
 * form one group, under the spelling of its first item. */
BUILTIN(jinja_filter_groupby) {
    List items = jinja_collect(m, self);
    bool case_sensitive = jinja_flag(m, a[2]);
    Value *sorted = NEW_ARRAY(m, items.count, Value), *keys = NEW_ARRAY(m, items.count, Value);
    Value *groups = NEW_ARRAY(m, items.count, Value);
    for (size_t i = 0; i < items.count; i++) {
        sorted[i] = items.items[i];
        keys[i] = fold_case(m, by_path(m, sorted[i], a[0], a[1]), case_sensitive);
    }
    jinja_sort_values(m, keys, sorted, items.count, false);
    size_t n = 0;
    for (size_t i = 0, end; i < items.count; i = end) {
        for (end = i + 1; end < items.count && jinja_equal(m, keys[i], keys[end]); end++) {
        }
        Value list = jinja_value_list(m, V_LIST, sorted + i, end - i);
        groups[n] = jinja_value_pair(m, by_path(m, sorted[i], a[0], a[1]), list);
        groups[n++].is_group = true;
    }
    return jinja_value_list(m, V_LIST, groups, n);
}

static Value extreme(Machine *m, Value self, const Value *a, bool largest) {
    Value best, item;
    Iter *it = jinja_iterate(m, self);
    if (!jinja_next_item(m, it, &best)) {
        return jinja_value_undefined(m, "No aggregated item, sequence was empty.", none, none);
    }
    Value best_key = fold_case(m, by_path(m, best, a[1], none), jinja_flag(m, a[0]));
    while (jinja_next_item(m, it, &item)) {
        Value key = fold_case(m, by_path(m, item, a[1], none), jinja_flag(m, a[0]));
        bool better = largest ? jinja_compare(m, best_key, key, OP_GREATER) < 0
                              : jinja_compare(m, key, best_key, OP_LESS) < 0;
        if (better) best = item, best_key = key;
    }
    return best;
}
BUILTIN(jinja_filter_min) {
    return extreme(m, self, a, false);
}
BUILTIN(jinja_filter_max) {
    return extreme(m, self, a, true);
}
