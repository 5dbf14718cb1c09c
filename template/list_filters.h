/* Filters of sequences, for the table in filters.c. */
#ifndef TEMPLATE_LIST_FILTERS_H
#define TEMPLATE_LIST_FILTERS_H

#include "template/call.h"

BUILTIN(filter_attr);
BUILTIN(filter_batch);
BUILTIN(filter_default);
BUILTIN(filter_dictsort);
BUILTIN(filter_first);
BUILTIN(filter_groupby);
BUILTIN(filter_items);
BUILTIN(filter_join);
BUILTIN(filter_last);
BUILTIN(filter_length);
BUILTIN(filter_list);
BUILTIN(filter_map);
BUILTIN(filter_max);
BUILTIN(filter_min);
BUILTIN(filter_reject);
BUILTIN(filter_rejectattr);
BUILTIN(filter_reverse);
BUILTIN(filter_select);
BUILTIN(filter_selectattr);
BUILTIN(filter_slice);
BUILTIN(filter_sort);
BUILTIN(filter_sum);
BUILTIN(filter_unique);

#endif
