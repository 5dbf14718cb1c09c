/* What the two files of filters share: filters.c has the table, and the filters of text and
 * numbers; list_filters.c those of sequences. */
#ifndef TEMPLATE_FILTERS_H
#define TEMPLATE_FILTERS_H

#include "template/template.h"

/* Optional arguments. */
static inline bool given(Value v) {
    return v.type != V_MISSING && v.type != V_NONE;
}
static inline bool flag(Machine *m, Value v) {
    return v.type != V_MISSING && truth(m, v);
}
static inline int64_t int_or(Machine *m, Value v, int64_t otherwise) {
    return v.type == V_MISSING ? otherwise : to_index(m, v);
}

static const Value none = {.type = V_NONE, .from_template = FROM_TEMPLATE};

Value filter_attr(Machine *m, Value self, const Value *a, const Args *args);
Value filter_batch(Machine *m, Value self, const Value *a, const Args *args);
Value filter_default(Machine *m, Value self, const Value *a, const Args *args);
Value filter_dictsort(Machine *m, Value self, const Value *a, const Args *args);
Value filter_first(Machine *m, Value self, const Value *a, const Args *args);
Value filter_groupby(Machine *m, Value self, const Value *a, const Args *args);
Value filter_items(Machine *m, Value self, const Value *a, const Args *args);
Value filter_join(Machine *m, Value self, const Value *a, const Args *args);
Value filter_last(Machine *m, Value self, const Value *a, const Args *args);
Value filter_length(Machine *m, Value self, const Value *a, const Args *args);
Value filter_list(Machine *m, Value self, const Value *a, const Args *args);
Value filter_map(Machine *m, Value self, const Value *a, const Args *args);
Value filter_max(Machine *m, Value self, const Value *a, const Args *args);
Value filter_min(Machine *m, Value self, const Value *a, const Args *args);
Value filter_reject(Machine *m, Value self, const Value *a, const Args *args);
Value filter_rejectattr(Machine *m, Value self, const Value *a, const Args *args);
Value filter_reverse(Machine *m, Value self, const Value *a, const Args *args);
Value filter_select(Machine *m, Value self, const Value *a, const Args *args);
Value filter_selectattr(Machine *m, Value self, const Value *a, const Args *args);
Value filter_slice(Machine *m, Value self, const Value *a, const Args *args);
Value filter_sort(Machine *m, Value self, const Value *a, const Args *args);
Value filter_sum(Machine *m, Value self, const Value *a, const Args *args);
Value filter_unique(Machine *m, Value self, const Value *a, const Args *args);

#endif
