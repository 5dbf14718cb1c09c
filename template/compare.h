/* Python's equality, order and hashes of values, and what stands on them: dicts, `in`, sorting. */
#ifndef TEMPLATE_COMPARE_H
#define TEMPLATE_COMPARE_H

#include "template/value.h"

bool equal(Machine *m, Value a, Value b);
bool same(Value a, Value b);                               /* `is` */
int compare(Machine *m, Value a, Value b, const char *op); /* < 0, 0, > 0; 2: unordered (NaN) */
bool contains(Machine *m, Value container, Value item);    /* `item in container` */

/* Stable. Orders `items` by their `keys`; both arrays change. Equal items keep their order when
 * reversed, too. */
void sort_values(Machine *m, Value *keys, Value *items, size_t count, bool reverse);

bool hashable(Value key);
Value *dict_find(Machine *m, const Dict *d, Value key); /* NULL: not there */
void dict_set(Machine *m, Dict *d, Value key, Value value);
void dict_append(Machine *m, Dict *d, Value key, Value value); /* the key is known to be new */

#endif
