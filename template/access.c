#include "template/access.h"

#include "template/call.h"
#include "template/compare.h"
#include "template/iterate.h"
#include "template/number.h"
#include "template/print.h"

/* obj[key] as Python has it; V_MISSING where Python raises TypeError or LookupError. */
static Value own_item(Machine *m, Value object, Value key) {
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
Value get_own_attr(Machine *m, Value object, Text name) {
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
    if (object.is_group) {
        if (text_is(name, "grouper")) return object.as.list->items[0];
        if (text_is(name, "list")) return object.as.list->items[1];
    }
    if (object.type == V_MACRO && text_is(name, "name") && object.as.macro->name.length) {
        return value_text(m, object.as.macro->name);
    }
    const Builtin *method = m->builtins->method(object, name, &unsafe);
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
    return value_function(m, object, method);
}

Value get_item(Machine *m, Value object, Value key) {
    if (object.type == V_UNDEFINED) fail_undefined(m, object);
    Value v = own_item(m, object, key);
    if (v.type == V_MISSING && key.type == V_STRING) v = get_own_attr(m, object, *key.as.text);
    return v.type == V_MISSING ? value_undefined(m, NULL, object, key) : v;
}

Value get_attr(Machine *m, Value object, Text name) {
    if (object.type == V_UNDEFINED) fail_undefined(m, object);
    Value v = get_own_attr(m, object, name);
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
