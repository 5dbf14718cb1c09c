#include "template/call.h"

#include "template/equality.h"
#include "template/print.h"

#include <string.h>

/* Stores an argument in the a[i] of its parameter. Where `name` is empty, `position` gives the
 * parameter. */
static void bind_argument(Machine *m, const Builtin *f, Value *a, size_t position, Text name,
                          Value value) {
    size_t i = 0;
    for (const char *p = f->params; *p; i++) {
        size_t length = strcspn(p, ",");
        bool matches = name.length ? length == name.length && memcmp(p, name.bytes, length) == 0
                                   : i == position;
        if (matches) {
            if (a[i].type != V_MISSING) jinja_fail(m, "%s() got an argument twice", f->name);
            a[i] = value;
            return;
        }
        p += length + (p[length] == ',');
    }
    if (name.length) {
        jinja_fail(m, "%s() got an unexpected keyword argument '%.*s'", f->name,
                   jinja_text_shown(name), (const char *)name.bytes);
    }
    jinja_fail(m, "%s() takes at most %zu arguments", f->name, i);
}

const Builtin *jinja_find_builtin(const Builtin *table, Text name) {
    while (table->name && !jinja_text_is(name, table->name)) table++;
    return table->name ? table : NULL;
}

Value jinja_call_builtin(Machine *m, const Builtin *f, Value self, const Args *args) {
    Value a[MAX_PARAMS] = {{.type = V_MISSING}}, result;
    jinja_enter(m);
    if (f->params) {
        for (size_t i = 0; i < args->count; i++) {
            bind_argument(m, f, a, i, (Text){0}, args->values[i]);
        }
        for (size_t i = 0; i < args->n_keywords; i++) {
            bind_argument(m, f, a, 0, args->keywords[i], args->keyword_values[i]);
        }
        for (int i = 0; i < f->required; i++) {
            if (a[i].type == V_MISSING) jinja_fail(m, "%s() is missing an argument", f->name);
        }
    }
    result = f->call(m, self, a, args);
    jinja_leave(m);
    return result;
}

const Value *jinja_find_keyword(const Args *args, Text name) {
    for (size_t i = 0; i < args->n_keywords; i++) {
        if (jinja_text_equal(args->keywords[i], name)) return &args->keyword_values[i];
    }
    return NULL;
}

void jinja_dict_update(Machine *m, Dict *d, const Args *args) {
    if (args->count > 1) jinja_fail(m, "dict expected at most 1 argument, got %zu", args->count);
    if (args->count == 1) {
        Value source = args->values[0], item;
        bool is_dict = source.type == V_DICT;
        for (size_t i = 0; is_dict && i < source.as.dict->count; i++) {
            jinja_dict_set(m, d, source.as.dict->entries[i].key, source.as.dict->entries[i].value);
        }
        for (Iter *it = is_dict ? NULL : jinja_iterate(m, source);
             it && jinja_next_item(m, it, &item);) {
            List pair = jinja_collect(m, item);
            if (pair.count != 2)
                jinja_fail(m, "a dict is made from pairs, not from %zu items", pair.count);
            jinja_dict_set(m, d, pair.items[0], pair.items[1]);
        }
    }
    for (size_t i = 0; i < args->n_keywords; i++) {
        jinja_dict_set(m, d, jinja_value_text(m, args->keywords[i]), args->keyword_values[i]);
    }
}

NORETURN void jinja_fail_unknown(Machine *m, const char *what, Text name) {
    jinja_fail(m, "No %s named '%.*s'.", what, jinja_text_shown(name), (const char *)name.bytes);
}
