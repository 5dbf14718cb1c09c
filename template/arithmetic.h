/* Arithmetic with Python's rules, except that an integer which passes 64 bits is an error. */
#ifndef TEMPLATE_ARITHMETIC_H
#define TEMPLATE_ARITHMETIC_H

#include "template/value.h"

/* `op` is '+' '-' '*' '/' '%', 'd' for // or 'p' for **. */
Value arithmetic(Machine *m, char op, Value a, Value b);
Value negate(Machine *m, Value v);

#endif
