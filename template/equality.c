#include "template/equality.h"

#include "template/iterate.h"
#include "template/print.h"

#include <math.h>
#include <string.h>
#include <xxhash.h>

bool jinja_same(Value a, Value b) {
    if (a.type != b.type) return false;
    if (a.type == V_NONE) return true;
    if (jinja_is_integer(a)) return a.as.integer == b.as.integer;
    return a.as.text == b.as.text; /* or another pointer of the union, or a float's bits */
}

static int compare_numbers(Value a, Value b) {
    if (jinja_is_integer(a) && jinja_is_integer(b)) {
        return (a.as.integer > b.as.integer) - (a.as.integer < b.as.integer);
    }
    /* A long double holds every int64 and every double. */
    long double x = a.type == V_FLOAT ? (long double)a.as.real : (long double)a.as.integer;
    long double y = b.type == V_FLOAT ? (long double)b.as.real : (long double)b.as.integer;
    if (isnan(x) || isnan(y)) return 2;
    return (x > y) - (x < y);
}

static bool equal_lists(Machine *m, const List *a, const List *b) {
    if (a->count != b->count) return false;
    for (size_t i = 0; i < a->count; i++) {
        if (!jinja_equal(m, a->items[i], b->items[i])) return false;
    }
    return true;
}

static bool equal_dicts(Machine *m, const Dict *a, const Dict *b) {
    if (a->count != b->count) return false;
    for (size_t i = 0; i < a->count; i++) {
        Value *other = jinja_dict_find(m, b, a->entries[i].key);
        if (!other || !jinja_equal(m, a->entries[i].value, *other)) return false;
    }
    return true;
}

static bool equal_ranges(const Range *a, const Range *b) {
    if (a->count != b->count) return false;
    return a->count == 0 || (a->start == b->start && (a->count == 1 || a->step == b->step));
}

/* Python's a == b: numbers of all types by their value, containers by their items, functions and
 * other objects by identity. */
bool jinja_equal(Machine *m, Value a, Value b) {
    if (jinja_is_number(a) && jinja_is_number(b)) return compare_numbers(a, b) == 0;
    if (a.type != b.type) return false;
    jinja_enter(m);
    bool result;
    switch (a.type) {
    case V_NONE:
    case V_UNDEFINED:
        result = true;
        break;
    case V_STRING:
        jinja_spend(m, a.as.text->length);
        result = jinja_text_equal(*a.as.text, *b.as.text);
        break;
    case V_LIST:
    case V_TUPLE:
        result = equal_lists(m, a.as.list, b.as.list);
        break;
    case V_DICT:
        result = equal_dicts(m, a.as.dict, b.as.dict);
        break;
    case V_RANGE:
        result = equal_ranges(a.as.range, b.as.range);
        break;
    default:
        result = jinja_same(a, b);
    }
    jinja_leave(m);
    return result;
}

int jinja_compare(Machine *m, Value a, Value b, Operator op) {
    if (a.type == V_UNDEFINED) jinja_fail_undefined(m, a);
    if (b.type == V_UNDEFINED) jinja_fail_undefined(m, b);
    if (jinja_is_number(a) && jinja_is_number(b)) return compare_numbers(a, b);
    if (a.type == V_STRING && b.type == V_STRING) {
        jinja_spend(m, a.as.text->length);
        return jinja_text_compare(*a.as.text, *b.as.text);
    }
    if (a.type != b.type || !jinja_is_list(a)) {
        jinja_fail(m, "'%s' not supported between instances of '%s' and '%s'",
                   jinja_operator_name(op), jinja_type_name(a), jinja_type_name(b));
    }
    const List *x = a.as.list, *y = b.as.list;
    for (size_t i = 0; i < x->count && i < y->count; i++) {
        if (jinja_equal(m, x->items[i], y->items[i])) continue;
        jinja_enter(m);
        int order = jinja_compare(m, x->items[i], y->items[i], op);
        jinja_leave(m);
        return order;
    }
    return (x->count > y->count) - (x->count < y->count);
}

bool jinja_contains(Machine *m, Value container, Value item) {
    Value candidate;
    if (container.type == V_STRING) {
        if (item.type == V_STRING) {
            return jinja_text_find(m, *container.as.text, *item.as.text, 0) != SIZE_MAX;
        }
        jinja_fail(m, "'in <string>' requires string as left operand, not %s",
                   jinja_type_name(item));
    }
    if (container.type == V_DICT) return jinja_dict_find(m, container.as.dict, item) != NULL;
    if (!jinja_is_iterable(container) || container.type == V_LOOP) {
        jinja_fail(m, "argument of type '%s' is not iterable", jinja_type_name(container));
    }
    for (Iter *it = jinja_iterate(m, container); jinja_next_item(m, it, &candidate);) {
        if (jinja_same(candidate, item) || jinja_equal(m, candidate, item)) return true;
    }
    return false;
}

/* Whether a comparison of two values holds. */
bool jinja_holds(Machine *m, Operator op, Value a, Value b) {
    switch (op) {
    case OP_EQUAL:
        return jinja_equal(m, a, b);
    case OP_UNEQUAL:
        return !jinja_equal(m, a, b);
    case OP_IN:
        return jinja_contains(m, b, a);
    case OP_NOT_IN:
        return !jinja_contains(m, b, a);
    default:
        break;
    }
    switch (jinja_compare(m, a, b, op)) {
    case -1:
        return op == OP_LESS || op == OP_AT_MOST;
    case 0:
        return op == OP_AT_MOST || op == OP_AT_LEAST;
    case 1:
        return op == OP_GREATER || op == OP_AT_LEAST;
    default: /* NaN */
        return false;
    }
}

/* Merge sort. */
void jinja_sort_values(Machine *m, Value *keys, Value *items, size_t count, bool reverse) {
    Value *other_keys = NEW_ARRAY(m, count, Value), *other_items = NEW_ARRAY(m, count, Value);
    Value *from_keys = keys, *from = items, *to_keys = other_keys, *to = other_items;
    for (size_t width = 1; width < count; width *= 2) {
        for (size_t start = 0; start < count; start += 2 * width) {
            size_t middle = start + width < count ? start + width : count;
            size_t end = middle + width < count ? middle + width : count;
            size_t left = start, right = middle;
            for (size_t i = start; i < end; i++) {
                bool take_right = left == middle;
                if (left < middle && right < end) {
                    Value l = from_keys[left], r = from_keys[right];
                    take_right = (reverse ? jinja_compare(m, l, r, OP_LESS)
                                          : jinja_compare(m, r, l, OP_LESS)) < 0;
                }
                size_t source = take_right ? right++ : left++;
                to_keys[i] = from_keys[source], to[i] = from[source];
            }
        }
        Value *swap = from_keys;
        from_keys = to_keys, to_keys = swap;
        swap = from, from = to, to = swap;
    }
    if (from == items || count == 0) return;
    memcpy(items, from, count * sizeof *items);
    memcpy(keys, from_keys, count * sizeof *keys);
}

/* ---- dicts: insertion order, found by comparing hashes one by one (they are small) ---- */

bool jinja_hashable(Value key) {
    if (key.type == V_TUPLE) {
        for (size_t i = 0; i < key.as.list->count; i++) {
            if (!jinja_hashable(key.as.list->items[i])) return false;
        }
    }
    return key.type != V_LIST && key.type != V_DICT && key.type != V_VIEW;
}

/* Hash of a dict's key; fails for values that Python's hash() refuses. */
static uint64_t hash_key(Machine *m, Value key) {
    switch (key.type) {
    case V_STRING:
        jinja_spend(m, key.as.text->length);
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
        jinja_enter(m);
        for (size_t i = 0; i < key.as.list->count; i++) {
            hash = hash * 31 + hash_key(m, key.as.list->items[i]);
        }
        jinja_leave(m);
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
        jinja_fail(m, "unhashable type: '%s'", jinja_type_name(key));
    default:
        return (uintptr_t)key.as.text;
    }
}

static Value *find_hashed(Machine *m, const Dict *d, Value key, uint64_t hash) {
    jinja_spend(m, d->count * sizeof hash);
    for (size_t i = 0; i < d->count; i++) {
        if (d->entries[i].hash == hash && jinja_equal(m, d->entries[i].key, key)) {
            return &d->entries[i].value;
        }
    }
    return NULL;
}

Value *jinja_dict_find(Machine *m, const Dict *d, Value key) {
    return find_hashed(m, d, key, hash_key(m, key));
}

static void compare_append(Machine *m, Dict *d, Value key, Value value, uint64_t hash) {
    jinja_reserve(m, &d->entries, &d->capacity, d->count, d->count + 1, sizeof *d->entries);
    d->entries[d->count++] = (Entry){key, value, hash};
}

void jinja_dict_append(Machine *m, Dict *d, Value key, Value value) {
    compare_append(m, d, key, value, hash_key(m, key));
}

void jinja_dict_set(Machine *m, Dict *d, Value key, Value value) {
    uint64_t hash = hash_key(m, key);
    Value *found = find_hashed(m, d, key, hash);
    if (found)
        *found = value;
    else
        compare_append(m, d, key, value, hash);
}
