/* Arithmetic with Python's rules, except that an integer which passes 64 bits is an error. */
#ifndef TEMPLATE_ARITHMETIC_H
#define TEMPLATE_ARITHMETIC_H

#include "template/value.h"

/* OP_ADD to OP_POWER. */
Value jinja_arithmetic(Machine *m, Operator op, Value a, Value b);
Value jinja_negate(Machine *m, Value v);

#endif
