/* Filters of sequences, for the table in filters.c. */
#ifndef TEMPLATE_LIST_FILTERS_H
#define TEMPLATE_LIST_FILTERS_H

#include "template/call.h"

BUILTIN(jinja_filter_attr);
BUILTIN(jinja_filter_batch);
BUILTIN(jinja_filter_default);
BUILTIN(jinja_filter_dictsort);
BUILTIN(jinja_filter_first);
BUILTIN(jinja_filter_groupby);
BUILTIN(jinja_filter_items);
BUILTIN(jinja_filter_join);
BUILTIN(jinja_filter_last);
BUILTIN(jinja_filter_length);
BUILTIN(jinja_filter_list);
BUILTIN(jinja_filter_map);
BUILTIN(jinja_filter_max);
BUILTIN(jinja_filter_min);
BUILTIN(jinja_filter_reject);
BUILTIN(jinja_filter_rejectattr);
BUILTIN(jinja_filter_reverse);
BUILTIN(jinja_filter_select);
BUILTIN(jinja_filter_selectattr);
BUILTIN(jinja_filter_slice);
BUILTIN(jinja_filter_sort);
BUILTIN(jinja_filter_sum);
BUILTIN(jinja_filter_unique);

#endif
