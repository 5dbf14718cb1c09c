/* Filters of sequences, for the table in filters.c. */
#ifndef TEMPLATE_LIST_FILTERS_H
#define TEMPLATE_LIST_FILTERS_H

#include "template/call.h"

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
