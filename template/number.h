/* Numbers from values and from text. Integers are 64 bits wide. */
#ifndef TEMPLATE_NUMBER_H
#define TEMPLATE_NUMBER_H

#include "template/value.h"

double jinja_to_double(Value v);                 /* of a number */
int64_t jinja_to_index(Machine *m, Value v);     /* an int or bool; fails otherwise */
Value jinja_double_to_int(Machine *m, double f); /* truncates */

/* int(text, base). Returns false if the text is not an integer; *overflow: it is one, but passes 64
 * bits. */
bool jinja_parse_int(Text t, int base, int64_t *value, bool *overflow);
bool jinja_parse_float(Machine *m, Text t, double *value); /* float(text) */

NORETURN void jinja_fail_overflow(Machine *m);

#endif
