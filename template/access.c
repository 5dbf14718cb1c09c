#include "template/access.h"

#include "template/call.h"
#include "template/equality.h"
#include "template/iterate.h"
#include "template/number.h"
#include "template/print.h"

/* Python's object[key]; V_MISSING where Python raises TypeError or LookupError. */
static Value own_item(Machine *m, Value object, Value key) {
    if (object.type == V_DICT) {
        Value *found = jinja_hashable(key) ? jinja_dict_find(m, object.as.dict, key) : NULL;
        return found ? *found : missing;
    }
    bool indexed = jinja_is_list(object) || object.type == V_STRING || object.type == V_RANGE;
    if (!indexed || !jinja_is_integer(key)) return missing;
    int64_t count = jinja_length(m, object), i = key.as.integer;
    if (i < 0) i += count;
    if (i < 0 || i >= count) return missing;
    if (object.type == V_RANGE) return jinja_range_item(object, (size_t)i);
    if (object.type != V_STRING) return object.as.list->items[i];
    Text t = *object.as.text;
    size_t at = jinja_text_offset(m, t, (size_t)i), size;
    jinja_text_char(t, at, &size);
    return jinja_value_like(m, object, jinja_text_cut(t, at, at + size));
}

/* An undefined value whose message says that the attribute is unsafe, as jinja2's sandbox does. The
 * last piece is built with its NUL: messages are C strings. */
static Value unsafe_attr(Machine *m, Value object, Text name) {
    Builder b = {0};
    jinja_build_c(m, &b, "access to attribute '", FROM_TEMPLATE);
    jinja_build(m, &b, name);
    jinja_build_c(m, &b, "' of '", FROM_TEMPLATE);
    jinja_build_c(m, &b, jinja_type_name(object), FROM_TEMPLATE);
    jinja_build_bytes(m, &b, "' object is unsafe.", sizeof "' object is unsafe.", FROM_TEMPLATE);
    return jinja_value_undefined(m, (const char *)b.bytes, object, jinja_value_text(m, name));
}

/* The attribute of a namespace, a loop or an object itself, not an item. */
Value jinja_get_own_attr(Machine *m, Value object, Text name) {
    bool unsafe = false;
    if (object.type == V_NAMESPACE) {
        Value *found = jinja_dict_find(m, object.as.dict, jinja_value_text(m, name));
        return found ? *found : missing;
    }
    if (object.type == V_LOOP) {
        Value v = jinja_loop_attr(m, object.as.loop, name);
        if (v.type != V_MISSING) return v;
    }
    if (object.type == V_CYCLER && jinja_text_is(name, "current")) {
        return object.as.cycler->items->items[object.as.cycler->at];
    }
    if (object.is_group) {
        if (jinja_text_is(name, "grouper")) return object.as.list->items[0];
        if (jinja_text_is(name, "list")) return object.as.list->items[1];
    }
    if (object.type == V_MACRO && jinja_text_is(name, "name") && object.as.macro->name.length) {
        return jinja_value_text(m, object.as.macro->name);
    }
    const Builtin *method = m->builtins->method(object, name, &unsafe);
    if (unsafe) return unsafe_attr(m, object, name);
    return method ? jinja_value_function(m, object, method) : missing;
}

Value jinja_get_item(Machine *m, Value object, Value key) {
    if (object.type == V_UNDEFINED) jinja_fail_undefined(m, object);
    Value v = own_item(m, object, key);
    if (v.type == V_MISSING && key.type == V_STRING)
        v = jinja_get_own_attr(m, object, *key.as.text);
    return v.type == V_MISSING ? jinja_value_undefined(m, NULL, object, key) : v;
}

Value jinja_get_attr(Machine *m, Value object, Text name) {
    if (object.type == V_UNDEFINED) jinja_fail_undefined(m, object);
    Value v = jinja_get_own_attr(m, object, name);
    if (v.type != V_MISSING) return v;
    Value key = jinja_value_text(m, name);
    v = own_item(m, object, key);
    return v.type == V_MISSING ? jinja_value_undefined(m, NULL, object, key) : v;
}

/* A bound of a slice as an index from 0, kept within low ... high; None is `otherwise`. */
static int64_t slice_bound(Machine *m, Value v, int64_t count, int64_t low, int64_t high,
                           int64_t otherwise) {
    if (v.type == V_NONE) return otherwise;
    int64_t i = jinja_to_index(m, v);
    if (i < 0) i += count;
    return i < low ? low : i > high ? high : i;
}

/* A Python slice with its bounds resolved: the n items start, start + step, ... of a sequence. */
typedef struct Slice {
    int64_t start, stop, step, n;
} Slice;

static Slice resolve_slice(Machine *m, int64_t count, Value start, Value stop, Value step) {
    Slice s = {.step = step.type == V_NONE ? 1 : jinja_to_index(m, step)};
    if (s.step == 0) jinja_fail(m, "slice step cannot be zero");
    if (s.step > count) s.step = count + 1;
    if (s.step < -count) s.step = -count - 1;
    bool down = s.step < 0;
    int64_t low = down ? -1 : 0, high = down ? count - 1 : count;
    s.start = slice_bound(m, start, count, low, high, down ? high : low);
    s.stop = slice_bound(m, stop, count, low, high, down ? low : high);
    int64_t distance = down ? s.start - s.stop : s.stop - s.start, pace = down ? -s.step : s.step;
    if (distance > 0) s.n = (distance - 1) / pace + 1;
    return s;
}

/* Python's text[start:stop:step], which counts code points; `s` has the first one and how many. */
static Value slice_text(Machine *m, Value object, Slice s) {
    Text t = *object.as.text;
    if (s.n == 0) return jinja_value_like(m, object, (Text){0});
    if (s.step == 1) {
        size_t from = jinja_text_offset(m, t, (size_t)s.start);
        size_t to = from + jinja_text_offset(m, jinja_text_cut(t, from, t.length), (size_t)s.n);
        return jinja_value_like(m, object, jinja_text_cut(t, from, to));
    }
    jinja_spend_slow(m, t.length);
    size_t *offsets = NEW_ARRAY(m, t.length + 1, size_t), count = 0, size;
    for (size_t at = 0; at < t.length; at += size) {
        jinja_text_char(t, at, &size);
        offsets[count++] = at;
    }
    offsets[count] = t.length;
    Builder b = {0};
    for (int64_t i = 0; i < s.n; i++) {
        int64_t at = s.start + i * s.step;
        jinja_build(m, &b, jinja_text_cut(t, offsets[at], offsets[at + 1]));
    }
    return jinja_value_like(m, object, jinja_built(&b));
}

/* The bounds of an empty slice may lie past 64 bits; they wrap, and nothing reads them. */
static Value slice_range(Machine *m, Value object, Slice s) {
    const Range *r = object.as.range;
    Range *sliced = NEW(m, Range);
    uint64_t first = (uint64_t)r->start, step = (uint64_t)r->step;
    sliced->start = (int64_t)(first + (uint64_t)s.start * step);
    sliced->stop = (int64_t)(first + (uint64_t)s.stop * step);
    sliced->step = (int64_t)(step * (uint64_t)s.step);
    sliced->count = (size_t)s.n;
    object.as.range = sliced;
    return object;
}

Value jinja_get_slice(Machine *m, Value object, Value start, Value stop, Value step) {
    if (object.type == V_UNDEFINED) jinja_fail_undefined(m, object);
    bool sliceable = jinja_is_list(object) || object.type == V_STRING || object.type == V_RANGE;
    if (!sliceable) jinja_fail(m, "'%s' object cannot be sliced", jinja_type_name(object));
    Slice s = resolve_slice(m, jinja_length(m, object), start, stop, step);
    if (object.type == V_STRING) return slice_text(m, object, s);
    if (object.type == V_RANGE) return slice_range(m, object, s);
    Value *items = NEW_ARRAY(m, (size_t)s.n, Value);
    for (int64_t i = 0; i < s.n; i++) items[i] = object.as.list->items[s.start + i * s.step];
    Value v = jinja_value_list(m, (ValueType)object.type, items, (size_t)s.n);
    v.from_template = object.from_template;
    return v;
}
