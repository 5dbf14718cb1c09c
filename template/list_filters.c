/* Filters of sequences: jinja2's filters.py. What is a generator there is lazy here, too: it
 * computes an item when it is asked for, and can be read once. */
#include "template/list_filters.h"

#include "template/access.h"
#include "template/arithmetic.h"
#include "template/case.h"
#include "template/compare.h"
#include "template/print.h"

#include <string.h>

/* ---- attributes by path: "a.b.0" ---- */

/* item.a.b.0 for the path "a.b.0", which may also be a number. An undefined value on the way
 * becomes `otherwise`, if it is given. */
static Value by_path(Machine *m, Value item, Value path, Value otherwise) {
    if (!given(path)) return item;
    Text rest = path.type == V_STRING ? *path.as.text : (Text){0}, part;
    for (bool more = true; more;) {
        more = text_next_part(m, &rest, ".", &part);
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

BUILTIN(filter_sum) {
    Value sum = value_or(a[1], value_int(0)), item;
    if (sum.type == V_STRING) fail(m, "sum() can't sum strings");
    for (Iter *it = iterate(m, self); next_item(m, it, &item);) {
        sum = arithmetic(m, OP_ADD, sum, by_path(m, item, a[0], none));
    }
    return sum;
}

/* ---- sequences ---- */

BUILTIN(filter_length) {
    return value_int(length(m, self));
}

BUILTIN(filter_list) {
    List list = collect(m, self);
    return value_list(m, V_LIST, list.items, list.count);
}

BUILTIN(filter_first) {
    Value item;
    if (next_item(m, iterate(m, self), &item)) return item;
    return value_undefined(m, "No first item, sequence was empty.", none, none);
}

BUILTIN(filter_last) {
    Value item;
    Iter *it = iterate_reversed(m, self);
    if (!it) fail(m, "'%s' object is not reversible", type_name(self));
    if (next_item(m, it, &item)) return item;
    return value_undefined(m, "No last item, sequence was empty.", none, none);
}

BUILTIN(filter_reverse) {
    if (self.type == V_STRING) return get_slice(m, self, none, none, value_int(-1));
    Iter *it = iterate_reversed(m, self);
    if (it) return value_iterator(it);
    List items = collect(m, self); /* an iterator */
    return get_slice(m, value_list(m, V_LIST, items.items, items.count), none, none, value_int(-1));
}

BUILTIN(filter_join) {
    Text separator = {0};
    if (a[0].type != V_MISSING) separator = to_text(m, a[0]);
    Builder b = {0};
    Value item;
    Iter *it = iterate(m, self);
    for (bool first = true; next_item(m, it, &item); first = false) {
        if (!first) build(m, &b, separator);
        build_str(m, &b, by_path(m, item, a[1], none));
    }
    return value_text(m, built(&b));
}

BUILTIN(filter_default) {
    bool absent = self.type == V_UNDEFINED || (flag(m, a[1]) && !truth(m, self));
    return absent ? value_or(a[0], value_text(m, (Text){0})) : self;
}

BUILTIN(filter_attr) {
    if (self.type == V_UNDEFINED) fail_undefined(m, self);
    if (a[0].type != V_STRING) fail(m, "attr: the name must be a string");
    Value v = get_own_attr(m, self, *a[0].as.text);
    return v.type == V_MISSING ? value_undefined(m, NULL, self, a[0]) : v;
}

static Value new_iterator(Machine *m, bool (*next)(Machine *, Iter *, Value *), Value source) {
    Iter *it = NEW(m, Iter);
    it->next = next;
    it->source = source;
    return value_iterator(it);
}

/* The next item that a lazy filter reads. As in jinja2, a false value has none. */
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
        it->inner = iterate(m, value_view(m, it->source, VIEW_ITEMS));
    }
    return next_item(m, it->inner, item);
}

BUILTIN(filter_items) {
    return new_iterator(m, next_pair, self);
}

static Value keyword(Machine *m, const Args *args, const char *name) {
    const Value *found = find_keyword(args, text_c(m, name));
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
    if (name.type == V_UNDEFINED) fail_undefined(m, name);
    Text t = repr_text(m, name);
    fail(m, "No %s named %.*s.", what, t.length < 80 ? (int)t.length : 80, (const char *)t.bytes);
}

static bool next_mapped(Machine *m, Iter *it, Value *item) {
    if (!next_source(m, it, item)) return false;
    const Args *args = it->args;
    Value attribute = keyword(m, args, "attribute");
    if (args->count == 0) {
        bool has_default = keyword(m, args, "default").type != V_MISSING;
        if (attribute.type == V_MISSING) fail(m, "map requires a filter argument");
        if (args->n_keywords > 1 + (size_t)has_default) fail(m, "map: unexpected keyword argument");
        *item = by_path(m, *item, attribute, keyword(m, args, "default"));
        return true;
    }
    Value name = args->values[0];
    const Builtin *filter = name.type == V_STRING ? m->builtins->filter(*name.as.text) : NULL;
    if (!filter) unknown(m, "filter", name);
    *item = call_builtin(m, filter, *item, after(m, args, 1));
    return true;
}

BUILTIN(filter_map) {
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
            const Builtin *test = name.type == V_STRING ? m->builtins->test(*name.as.text) : NULL;
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
BUILTIN(filter_select) {
    return select_items(m, self, args, false, false);
}
BUILTIN(filter_reject) {
    return select_items(m, self, args, true, false);
}
BUILTIN(filter_selectattr) {
    return select_items(m, self, args, false, true);
}
BUILTIN(filter_rejectattr) {
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

BUILTIN(filter_unique) {
    Value v = new_lazy(m, next_unique, self, a, 2);
    v.as.iter->seen = NEW(m, Dict);
    return v;
}

/* Splits the items into lists of `size`; the last list is filled up with `fill`, if it is given. */
static List batches(Machine *m, List items, int64_t size, Value fill) {
    size_t each = size < 1 ? items.count + 1 : (size_t)size, n = 0;
    Value *lists = NEW_ARRAY(m, items.count / each + 2, Value);
    if (size == 0 && items.count)
        lists[n++] = value_list(m, V_LIST, NULL, 0); /* jinja2 begins with it */
    for (size_t i = 0; i < items.count; i += each) {
        size_t have = items.count - i < each ? items.count - i : each;
        size_t count = given(fill) && size > 0 ? each : have;
        Value *batch = NEW_ARRAY(m, count, Value);
        for (size_t k = 0; k < count; k++) batch[k] = k < have ? items.items[i + k] : fill;
        lists[n++] = value_list(m, V_LIST, batch, count);
    }
    return (List){lists, n};
}

/* Splits the items into `wanted` lists of nearly equal length; lists shorter than the longest get
 * `fill`, if it is given. */
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

/* The next of the lists that `divide` makes of all items. */
static bool next_part(Machine *m, Iter *it, Value *item,
                      List (*divide)(Machine *, List, int64_t, Value)) {
    if (!it->inner) {
        List items = collect(m, it->source);
        int64_t size = to_index(m, it->args->values[0]);
        List parts = divide(m, items, size, it->args->values[1]);
        it->inner = iterate(m, value_list(m, V_LIST, parts.items, parts.count));
    }
    return next_item(m, it->inner, item);
}

static bool next_batch(Machine *m, Iter *it, Value *item) {
    return next_part(m, it, item, batches);
}

static bool next_slice(Machine *m, Iter *it, Value *item) {
    return next_part(m, it, item, slices);
}

BUILTIN(filter_batch) {
    return new_lazy(m, next_batch, self, a, 2);
}

BUILTIN(filter_slice) {
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
        more = text_next_part(m, &rest, ",", &path);
        Value part = by_path(m, item, value_text(m, path), none);
        parts[n++] = fold_case(m, part, case_sensitive);
    }
    return value_list(m, V_LIST, parts, n);
}

BUILTIN(filter_sort) {
    List items = collect(m, self);
    Value *sorted = NEW_ARRAY(m, items.count, Value), *keys = NEW_ARRAY(m, items.count, Value);
    for (size_t i = 0; i < items.count; i++) {
        sorted[i] = items.items[i];
        keys[i] = sort_key(m, sorted[i], a[2], flag(m, a[1]));
    }
    sort_values(m, keys, sorted, items.count, flag(m, a[0]));
    return value_list(m, V_LIST, sorted, items.count);
}

BUILTIN(filter_dictsort) {
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

BUILTIN(filter_groupby) {
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
        for (end = i + 1; end < items.count && equal(m, keys[i], keys[end]); end++) {
        }
        Value list = value_list(m, V_LIST, sorted + i, end - i);
        groups[n] = value_pair(m, by_path(m, sorted[i], a[0], a[1]), list);
        groups[n++].is_group = true;
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
        bool better = largest ? compare(m, best_key, key, OP_GREATER) < 0
                              : compare(m, key, best_key, OP_LESS) < 0;
        if (better) best = item, best_key = key;
    }
    return best;
}
BUILTIN(filter_min) {
    return extreme(m, self, a, false);
}
BUILTIN(filter_max) {
    return extreme(m, self, a, true);
}
