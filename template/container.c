/* Dicts, iteration, and reaching into values: a[b], a.b and a[b:c]. */
#include "template/template.h"

#include <math.h>
#include <string.h>
#include <xxhash.h>

/* ---- dicts: insertion order, found by comparing hashes one by one (they are small) ---- */

bool hashable(Value key) {
    if (key.type == V_TUPLE) {
        for (size_t i = 0; i < key.as.list->count; i++) {
            if (!hashable(key.as.list->items[i])) return false;
        }
    }
    return key.type != V_LIST && key.type != V_DICT && key.type != V_VIEW;
}

uint64_t hash_key(Machine *m, Value key) {
    switch (key.type) {
    case V_STRING:
        spend(m, key.as.text->length);
        return XXH3_64bits(key.as.text->bytes, key.as.text->length);
    case V_BOOL:
    case V_INT:
        return (uint64_t)key.as.integer * 0x9E3779B97F4A7C15u;
    case V_FLOAT: /* 1.0 is the same key as 1 */
        if (key.as.real == floor(key.as.real) && fabs(key.as.real) < 9e18) {
            return (uint64_t)(int64_t)key.as.real * 0x9E3779B97F4A7C15u;
        }
        return XXH3_64bits(&key.as.real, sizeof key.as.real);
    case V_TUPLE: {
        uint64_t hash = key.as.list->count;
        enter(m);
        for (size_t i = 0; i < key.as.list->count; i++) {
            hash = hash * 31 + hash_key(m, key.as.list->items[i]);
        }
        leave(m);
        return hash;
    }
    case V_NONE:
        return 1;
    case V_UNDEFINED:
        return 2;
    case V_RANGE:
        return key.as.range->count;
    case V_LIST:
    case V_DICT:
    case V_VIEW:
        fail(m, "unhashable type: '%s'", type_name(key));
    default:
        return (uintptr_t)key.as.text;
    }
}

static Value *find_hashed(Machine *m, const Dict *d, Value key, uint64_t hash) {
    spend(m, d->count * sizeof hash);
    for (size_t i = 0; i < d->count; i++) {
        if (d->entries[i].hash == hash && equal(m, d->entries[i].key, key)) {
            return &d->entries[i].value;
        }
    }
    return NULL;
}

Value *dict_find(Machine *m, const Dict *d, Value key) {
    return find_hashed(m, d, key, hash_key(m, key));
}

static void append(Machine *m, Dict *d, Value key, Value value, uint64_t hash) {
    if (d->count == d->capacity) {
        size_t capacity = d->capacity ? 2 * d->capacity : 4;
        Entry *entries = NEW_ARRAY(m, capacity, Entry);
        if (d->count) memcpy(entries, d->entries, d->count * sizeof *entries);
        d->entries = entries, d->capacity = capacity;
    }
    d->entries[d->count++] = (Entry){key, value, hash};
}

void dict_append(Machine *m, Dict *d, Value key, Value value) {
    append(m, d, key, value, hash_key(m, key));
}

void dict_set(Machine *m, Dict *d, Value key, Value value) {
    uint64_t hash = hash_key(m, key);
    Value *found = find_hashed(m, d, key, hash);
    if (found)
        *found = value;
    else
        append(m, d, key, value, hash);
}

void dict_update(Machine *m, Dict *d, const Args *args) {
    if (args->count > 1) fail(m, "dict expected at most 1 argument, got %zu", args->count);
    if (args->count == 1) {
        Value source = args->values[0], item;
        bool is_dict = source.type == V_DICT;
        for (size_t i = 0; is_dict && i < source.as.dict->count; i++) {
            dict_set(m, d, source.as.dict->entries[i].key, source.as.dict->entries[i].value);
        }
        for (Iter *it = is_dict ? NULL : iterate(m, source); it && next_item(m, it, &item);) {
            List pair = collect(m, item);
            if (pair.count != 2)
                fail(m, "a dict is made from pairs, not from %zu items", pair.count);
            dict_set(m, d, pair.items[0], pair.items[1]);
        }
    }
    for (size_t i = 0; i < args->n_keywords; i++) {
        dict_set(m, d, value_text(m, args->keywords[i]), args->keyword_values[i]);
    }
}

/* ---- iteration ---- */

static bool next_in_list(Machine *m, Iter *it, Value *item) {
    (void)m;
    if (it->at == it->source.as.list->count) return false;
    *item = it->source.as.list->items[it->at++];
    return true;
}

static bool next_backwards(Machine *m, Iter *it, Value *item) {
    (void)m;
    if (it->at == 0) return false;
    *item = it->source.as.list->items[--it->at];
    return true;
}

static bool next_char(Machine *m, Iter *it, Value *item) {
    Text t = *it->source.as.text;
    if (it->at == t.length) return false;
    size_t size;
    text_char(t, it->at, &size);
    *item = value_text(m, text_cut(t, it->at, it->at + size));
    it->at += size;
    return true;
}

static bool next_in_dict(Machine *m, Iter *it, Value *item) {
    bool is_view = it->source.type == V_VIEW;
    const Dict *d = is_view ? it->source.as.view->dict.as.dict : it->source.as.dict;
    if (it->at == d->count) return false;
    const Entry *entry = &d->entries[it->at++];
    *item = !is_view || it->source.as.view->kind == VIEW_KEYS ? entry->key
            : it->source.as.view->kind == VIEW_VALUES         ? entry->value
                                                      : value_pair(m, entry->key, entry->value);
    return true;
}

static Value range_item(const Value v, size_t i) {
    uint64_t offset = (uint64_t)i * (uint64_t)v.as.range->step; /* may pass through 2^63 */
    Value item = value_int((int64_t)((uint64_t)v.as.range->start + offset));
    item.from_template = v.from_template;
    return item;
}

static bool next_in_range(Machine *m, Iter *it, Value *item) {
    (void)m;
    if (it->at == it->source.as.range->count) return false;
    *item = range_item(it->source, it->at++);
    return true;
}

static bool next_nothing(Machine *m, Iter *it, Value *item) {
    (void)m, (void)it, (void)item;
    return false;
}

bool is_iterable(Value v) {
    return v.type == V_ITERATOR || has_length(v); /* everything that has a length, too */
}

Iter *iterate(Machine *m, Value v) {
    if (v.type == V_ITERATOR) return v.as.iter;
    Iter *it = NEW(m, Iter);
    it->source = v;
    switch (v.type) {
    case V_LIST:
    case V_TUPLE:
        it->next = next_in_list;
        break;
    case V_STRING:
        it->next = next_char;
        break;
    case V_DICT:
    case V_VIEW:
        it->next = next_in_dict;
        break;
    case V_RANGE:
        it->next = next_in_range;
        break;
    case V_UNDEFINED:
        it->next = next_nothing;
        break;
    default:
        fail(m, "'%s' object is not iterable", type_name(v));
    }
    return it;
}

Iter *iterate_reversed(Machine *m, Value v) {
    if (!has_length(v) || v.type == V_LOOP) return NULL;
    List items = collect(m, v);
    Iter *it = NEW(m, Iter);
    it->source = value_list(m, V_LIST, items.items, items.count);
    it->at = items.count;
    it->next = next_backwards;
    return it;
}

bool next_item(Machine *m, Iter *it, Value *item) {
    enter(m);
    bool found = it->next(m, it, item);
    leave(m);
    return found;
}

Value value_iterator(Iter *it) {
    return (Value){.type = V_ITERATOR, .from_template = FROM_TEMPLATE, .as.iter = it};
}

List collect(Machine *m, Value v) {
    List list = {0};
    size_t capacity = 0;
    Value item;
    if (v.type == V_LIST || v.type == V_TUPLE) return *v.as.list;
    for (Iter *it = iterate(m, v); next_item(m, it, &item);) {
        if (list.count == capacity) {
            capacity = capacity ? 2 * capacity : 8;
            Value *items = NEW_ARRAY(m, capacity, Value);
            if (list.count) memcpy(items, list.items, list.count * sizeof *items);
            list.items = items;
        }
        list.items[list.count++] = item;
    }
    return list;
}

bool contains(Machine *m, Value container, Value item) {
    Value candidate;
    if (container.type == V_STRING) {
        if (item.type == V_STRING) {
            return text_find(m, *container.as.text, *item.as.text, 0) != SIZE_MAX;
        }
        fail(m, "'in <string>' requires string as left operand, not %s", type_name(item));
    }
    if (container.type == V_DICT) return dict_find(m, container.as.dict, item) != NULL;
    if (!is_iterable(container) || container.type == V_LOOP) {
        fail(m, "argument of type '%s' is not iterable", type_name(container));
    }
    for (Iter *it = iterate(m, container); next_item(m, it, &candidate);) {
        if (same(candidate, item) || equal(m, candidate, item)) return true;
    }
    return false;
}

/* ---- reaching in ---- */

/* obj[key] as Python has it; V_MISSING where Python raises TypeError or LookupError. */
static Value own_item(Machine *m, Value object, Value key) {
    static const Value missing = {.type = V_MISSING};
    if (object.type == V_DICT) {
        Value *found = hashable(key) ? dict_find(m, object.as.dict, key) : NULL;
        return found ? *found : missing;
    }
    bool indexed = object.type == V_LIST || object.type == V_TUPLE || object.type == V_STRING ||
                   object.type == V_RANGE;
    if (!indexed || !is_integer(key)) return missing;
    int64_t count = length(m, object), i = key.as.integer;
    if (i < 0) i += count;
    if (i < 0 || i >= count) return missing;
    if (object.type == V_RANGE) return range_item(object, (size_t)i);
    if (object.type != V_STRING) return object.as.list->items[i];
    Text t = *object.as.text;
    size_t at = text_offset(m, t, (size_t)i), size;
    text_char(t, at, &size);
    return value_like(m, object, text_cut(t, at, at + size));
}

/* getattr(obj, name) in the sandbox; V_MISSING where there is no such attribute. */
Value get_method(Machine *m, Value object, Text name) {
    static const Value missing = {.type = V_MISSING};
    bool unsafe = false;
    if (object.type == V_NAMESPACE) {
        Value *found = dict_find(m, object.as.dict, value_text(m, name));
        return found ? *found : missing;
    }
    if (object.type == V_LOOP) {
        Value v = loop_attr(m, object.as.loop, name);
        if (v.type != V_MISSING) return v;
    }
    if (object.type == V_CYCLER && text_is(name, "current")) {
        return object.as.cycler->items->items[object.as.cycler->at];
    }
    if (object.type == V_TUPLE && object.markup) { /* groupby's pairs have names */
        if (text_is(name, "grouper")) return object.as.list->items[0];
        if (text_is(name, "list")) return object.as.list->items[1];
    }
    if (object.type == V_MACRO && text_is(name, "name") && object.as.macro->node->kind == N_MACRO) {
        return value_text(m, object.as.macro->node->text);
    }
    const Builtin *method = find_method(object, name, &unsafe);
    if (unsafe) {
        Builder b = {0};
        build_c(m, &b, "access to attribute '", FROM_TEMPLATE);
        build(m, &b, name);
        build_c(m, &b, "' of '", FROM_TEMPLATE);
        build_c(m, &b, type_name(object), FROM_TEMPLATE);
        build_bytes(m, &b, "' object is unsafe.", sizeof "' object is unsafe.", FROM_TEMPLATE);
        return value_undefined(m, (const char *)b.bytes, object, value_text(m, name));
    }
    if (!method) return missing;
    Function *f = NEW(m, Function);
    *f = (Function){object, method};
    return (Value){.type = V_FUNCTION, .from_template = FROM_TEMPLATE, .as.function = f};
}

Value get_item(Machine *m, Value object, Value key) {
    if (object.type == V_UNDEFINED) fail_undefined(m, object);
    Value v = own_item(m, object, key);
    if (v.type == V_MISSING && key.type == V_STRING) v = get_method(m, object, *key.as.text);
    return v.type == V_MISSING ? value_undefined(m, NULL, object, key) : v;
}

Value get_attr(Machine *m, Value object, Text name) {
    if (object.type == V_UNDEFINED) fail_undefined(m, object);
    Value v = get_method(m, object, name);
    if (v.type != V_MISSING) return v;
    Value key = value_text(m, name);
    v = own_item(m, object, key);
    return v.type == V_MISSING ? value_undefined(m, NULL, object, key) : v;
}

/* One bound of a slice, as an index from 0; None is `otherwise`. */
static int64_t slice_bound(Machine *m, Value v, int64_t count, int64_t low, int64_t high,
                           int64_t otherwise) {
    if (v.type == V_NONE) return otherwise;
    int64_t i = to_index(m, v);
    if (i < 0) i += count;
    return i < low ? low : i > high ? high : i;
}

static Value slice_text(Machine *m, Value object, int64_t start, int64_t step, int64_t n) {
    Text t = *object.as.text;
    if (step == 1) {
        size_t from = text_offset(m, t, (size_t)start);
        size_t to = from + text_offset(m, text_cut(t, from, t.length), (size_t)n);
        return value_like(m, object, text_cut(t, from, to));
    }
    spend_slow(m, t.length);
    size_t *offsets = NEW_ARRAY(m, t.length + 1, size_t), count = 0, size;
    for (size_t at = 0; at < t.length; at += size) {
        text_char(t, at, &size);
        offsets[count++] = at;
    }
    offsets[count] = t.length;
    Builder b = {0};
    for (int64_t i = 0; i < n; i++) {
        int64_t at = start + i * step;
        build(m, &b, text_cut(t, offsets[at], offsets[at + 1]));
    }
    return value_like(m, object, built(&b));
}

Value get_slice(Machine *m, Value object, Value start, Value stop, Value step) {
    if (object.type == V_UNDEFINED) fail_undefined(m, object);
    if (object.type != V_LIST && object.type != V_TUPLE && object.type != V_STRING &&
        object.type != V_RANGE) {
        fail(m, "'%s' object cannot be sliced", type_name(object));
    }
    int64_t count = length(m, object);
    int64_t by = step.type == V_NONE ? 1 : to_index(m, step);
    if (by == 0) fail(m, "slice step cannot be zero");
    if (by > count) by = count + 1;
    if (by < -count) by = -count - 1;
    int64_t low = by < 0 ? -1 : 0, high = by < 0 ? count - 1 : count;
    int64_t from = slice_bound(m, start, count, low, high, by < 0 ? high : low);
    int64_t to = slice_bound(m, stop, count, low, high, by < 0 ? low : high);
    int64_t distance = by > 0 ? to - from : from - to, pace = by > 0 ? by : -by;
    int64_t n = distance > 0 ? (distance - 1) / pace + 1 : 0;
    if (object.type == V_STRING) return slice_text(m, object, n ? from : 0, by, n);
    if (object.type == V_RANGE) {
        const Range *r = object.as.range;
        Range *sliced = NEW(m, Range);
        uint64_t first = (uint64_t)r->start, stride = (uint64_t)r->step; /* wrap, as nothing uses */
        *sliced = (Range){(int64_t)(first + (uint64_t)from * stride), /* what lies out of range */
                          (int64_t)(first + (uint64_t)to * stride),
                          (int64_t)(stride * (uint64_t)by), (size_t)n};
        Value v = object;
        v.as.range = sliced;
        return v;
    }
    Value *items = NEW_ARRAY(m, (size_t)n, Value);
    for (int64_t i = 0; i < n; i++) items[i] = object.as.list->items[from + i * by];
    Value v = value_list(m, (ValueType)object.type, items, (size_t)n);
    v.from_template = object.from_template;
    return v;
}
