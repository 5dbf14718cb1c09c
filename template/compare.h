/* Python's equality, order and hashes of values, and what stands on them: dicts, `in`, sorting. */
#ifndef TEMPLATE_COMPARE_H
#define TEMPLATE_COMPARE_H

#include "template/value.h"

bool equal(Machine *m, Value a, Value b);
bool same(Value a, Value b);                            /* `is` */
bool contains(Machine *m, Value container, Value item); /* `item in container` */
bool holds(Machine *m, Operator op, Value a, Value b);  /* OP_EQUAL to OP_NOT_IN */

/* The order of a and b: -1, 0 or 1; 2 where NaN has none. Fails for types without an order, with an
 * error that names `op`. */
int compare(Machine *m, Value a, Value b, Operator op);

/* Sorts items and their keys by the keys. Items with equal keys keep their order, also in reverse.
 */
void sort_values(Machine *m, Value *keys, Value *items, size_t count, bool reverse);

bool hashable(Value key);
Value *dict_find(Machine *m, const Dict *d, Value key); /* NULL: not there */
void dict_set(Machine *m, Dict *d, Value key, Value value);
void dict_append(Machine *m, Dict *d, Value key, Value value); /* the key is known to be new */

#endif
