/* Python's equality, order and hashes of values, and what stands on them: dicts, `in`, sorting. */
#ifndef TEMPLATE_EQUALITY_H
#define TEMPLATE_EQUALITY_H

#include "template/value.h"

bool jinja_equal(Machine *m, Value a, Value b);
bool jinja_same(Value a, Value b);                            /* `is` */
bool jinja_contains(Machine *m, Value container, Value item); /* `item in container` */
bool jinja_holds(Machine *m, Operator op, Value a, Value b);  /* OP_EQUAL to OP_NOT_IN */

/* The order of a and b: -1, 0 or 1; 2 where NaN has none. Fails for types without an order, with an
 * error that names `op`. */
int jinja_compare(Machine *m, Value a, Value b, Operator op);

/* Sorts items and their keys by the keys. Items with equal keys keep their order, also in reverse.
 */
void jinja_sort_values(Machine *m, Value *keys, Value *items, size_t count, bool reverse);

bool jinja_hashable(Value key);
Value *jinja_dict_find(Machine *m, const Dict *d, Value key); /* NULL: not there */
void jinja_dict_set(Machine *m, Dict *d, Value key, Value value);
void jinja_dict_append(Machine *m, Dict *d, Value key,
                       Value value); /* the key is known to be new */

#endif
