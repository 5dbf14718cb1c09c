#include "template/iterate.h"

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
    jinja_text_char(t, it->at, &size);
    *item = jinja_value_text(m, jinja_text_cut(t, it->at, it->at + size));
    it->at += size;
    return true;
}

static bool next_in_dict(Machine *m, Iter *it, Value *item) {
    bool is_view = it->source.type == V_VIEW;
    const Dict *d = is_view ? it->source.as.view->dict.as.dict : it->source.as.dict;
    if (it->at == d->count) return false;
    const Entry *entry = &d->entries[it->at++];
    *item = !is_view || it->source.as.view->kind == VIEW_KEYS ? entry->key
            : it->source.as.view->kind == VIEW_VALUES
                ? entry->value
                : jinja_value_pair(m, entry->key, entry->value);
    return true;
}

Value jinja_range_item(Value v, size_t i) {
    uint64_t offset = (uint64_t)i * (uint64_t)v.as.range->step; /* may wrap; the sum does not */
    Value item = jinja_value_int((int64_t)((uint64_t)v.as.range->start + offset));
    item.from_template = v.from_template;
    return item;
}

static bool next_in_range(Machine *m, Iter *it, Value *item) {
    (void)m;
    if (it->at == it->source.as.range->count) return false;
    *item = jinja_range_item(it->source, it->at++);
    return true;
}

static bool next_nothing(Machine *m, Iter *it, Value *item) {
    (void)m, (void)it, (void)item;
    return false;
}

bool jinja_is_iterable(Value v) {
    return v.type == V_ITERATOR || jinja_has_length(v);
}

/* Returns an iterator over the items of v. An iterator is returned as it is: it goes on where it
 * stands. */
Iter *jinja_iterate(Machine *m, Value v) {
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
        jinja_fail(m, "'%s' object is not iterable", jinja_type_name(v));
    }
    return it;
}

Iter *jinja_iterate_reversed(Machine *m, Value v) {
    if (!jinja_has_length(v) || v.type == V_LOOP) return NULL;
    List items = jinja_collect(m, v);
    Iter *it = NEW(m, Iter);
    it->source = jinja_value_list(m, V_LIST, items.items, items.count);
    it->at = items.count;
    it->next = next_backwards;
    return it;
}

bool jinja_next_item(Machine *m, Iter *it, Value *item) {
    jinja_enter(m);
    bool found = it->next(m, it, item);
    jinja_leave(m);
    return found;
}

Value jinja_value_iterator(Iter *it) {
    return (Value){.type = V_ITERATOR, .from_template = FROM_TEMPLATE, .as.iter = it};
}

List jinja_collect(Machine *m, Value v) {
    List list = {0};
    size_t capacity = 0;
    Value item;
    if (v.type == V_LIST || v.type == V_TUPLE) return *v.as.list;
    for (Iter *it = jinja_iterate(m, v); jinja_next_item(m, it, &item);) {
        jinja_list_append(m, &list, &capacity, item);
    }
    return list;
}

/* Python's len(), and 0 for an undefined value; fails for a value without a length. */
int64_t jinja_length(Machine *m, Value v) {
    switch (v.type) {
    case V_STRING:
        return (int64_t)jinja_text_count(m, *v.as.text);
    case V_LIST:
    case V_TUPLE:
        return (int64_t)v.as.list->count;
    case V_DICT:
        return (int64_t)v.as.dict->count;
    case V_VIEW:
        return (int64_t)v.as.view->dict.as.dict->count;
    case V_RANGE:
        return (int64_t)v.as.range->count;
    case V_LOOP:
        return jinja_loop_length(m, v.as.loop);
    case V_UNDEFINED:
        return 0;
    default:
        jinja_fail(m, "object of type '%s' has no len()", jinja_type_name(v));
    }
}

bool jinja_truth(Machine *m, Value v) {
    switch (v.type) {
    case V_NONE:
        return false;
    case V_BOOL:
    case V_INT:
        return v.as.integer != 0;
    case V_FLOAT:
        return v.as.real != 0;
    case V_STRING:
        return v.as.text->length != 0;
    default:
        return !jinja_has_length(v) || jinja_length(m, v) != 0;
    }
}

/* ---- the loop of a for statement ---- */

bool jinja_loop_advance(Machine *m, Loop *loop) {
    Value item = loop->after;
    if (item.type == V_MISSING && !jinja_next_item(m, loop->iter, &item)) return false;
    loop->after = missing;
    loop->index0++;
    loop->before = loop->current;
    loop->current = item;
    return true;
}

/* Looks at the item of the next round; V_MISSING: there is none. */
static Value peek(Machine *m, Loop *loop) {
    Value item;
    if (loop->after.type == V_MISSING && jinja_next_item(m, loop->iter, &item)) loop->after = item;
    return loop->after;
}

int64_t jinja_loop_length(Machine *m, Loop *loop) {
    if (loop->length >= 0) return loop->length;
    if (jinja_has_length(loop->iterable)) return loop->length = jinja_length(m, loop->iterable);
    List rest = jinja_collect(m, jinja_value_iterator(loop->iter));
    loop->iter = jinja_iterate(m, jinja_value_list(m, V_LIST, rest.items, rest.count));
    loop->length = (int64_t)rest.count + loop->index0 + 1 + (loop->after.type != V_MISSING);
    return loop->length;
}

/* The attribute of a template's `loop`: index, first, length ... */
Value jinja_loop_attr(Machine *m, Loop *loop, Text name) {
    if (jinja_text_is(name, "index")) return jinja_value_int(loop->index0 + 1);
    if (jinja_text_is(name, "index0")) return jinja_value_int(loop->index0);
    if (jinja_text_is(name, "first")) return jinja_value_bool(loop->index0 == 0);
    if (jinja_text_is(name, "last")) return jinja_value_bool(peek(m, loop).type == V_MISSING);
    if (jinja_text_is(name, "length")) return jinja_value_int(jinja_loop_length(m, loop));
    if (jinja_text_is(name, "revindex"))
        return jinja_value_int(jinja_loop_length(m, loop) - loop->index0);
    if (jinja_text_is(name, "revindex0"))
        return jinja_value_int(jinja_loop_length(m, loop) - loop->index0 - 1);
    if (jinja_text_is(name, "depth")) return jinja_value_int(loop->depth0 + 1);
    if (jinja_text_is(name, "depth0")) return jinja_value_int(loop->depth0);
    if (jinja_text_is(name, "previtem")) {
        if (loop->index0 > 0) return loop->before;
        return jinja_value_undefined(m, "there is no previous item", missing, none);
    }
    if (jinja_text_is(name, "nextitem")) {
        Value next = peek(m, loop);
        if (next.type != V_MISSING) return next;
        return jinja_value_undefined(m, "there is no next item", missing, none);
    }
    return missing;
}
