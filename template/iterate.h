/* Iteration, length and truth of values, and the `loop` of a for statement. */
#ifndef TEMPLATE_ITERATE_H
#define TEMPLATE_ITERATE_H

#include "template/value.h"

/* One pass over a value. `next` stores the next item and returns true, or false at the end. */
typedef struct Iter {
    bool (*next)(Machine *m, struct Iter *it, Value *item);
    Value source;
    size_t at;
    /* Lazy filters (list_filters.c): what they read and what they were called with. */
    struct Iter *inner;
    const struct Args *args;
    bool negate;       /* reject, not select */
    bool by_attribute; /* selectattr, rejectattr */
    Dict *seen;        /* unique: the keys so far */
    /* for ... if (eval.c): the statement, and the scope of its condition. */
    const struct Node *node;
    struct Scope *scope;
} Iter;

bool jinja_is_iterable(Value v);
Iter *jinja_iterate(Machine *m, Value v);
Iter *jinja_iterate_reversed(Machine *m, Value v); /* NULL where Python's reversed() fails */
bool jinja_next_item(Machine *m, Iter *it, Value *item);
Value jinja_value_iterator(Iter *it);
List jinja_collect(Machine *m, Value v); /* list(v) */
Value jinja_range_item(Value range, size_t i);

bool jinja_truth(Machine *m, Value v);
int64_t jinja_length(Machine *m, Value v);

/* jinja2's LoopContext. */
typedef struct Loop {
    Iter *iter;
    Value iterable;
    Value before, current; /* V_MISSING where there is none */
    Value after;           /* the next item once somebody has asked for it, else V_MISSING */
    Value last_changed;    /* the arguments of the last loop.changed() */
    int64_t index0;        /* -1 before the first round */
    int64_t length;        /* -1 until somebody asks */
    int64_t depth0;
    const struct Node *node; /* of a recursive loop, else NULL */
    struct Scope *scope;
} Loop;

bool jinja_loop_advance(Machine *m, Loop *loop);          /* false: there is no further item */
int64_t jinja_loop_length(Machine *m, Loop *loop);        /* may read the iterator to its end */
Value jinja_loop_attr(Machine *m, Loop *loop, Text name); /* V_MISSING: no such attribute */

#endif
