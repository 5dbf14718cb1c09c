/* Python's str() and repr() of values, and the error of an undefined value. */
#ifndef TEMPLATE_PRINT_H
#define TEMPLATE_PRINT_H

#include "template/value.h"

void jinja_build_str(Machine *m, Builder *b, Value v);
void jinja_build_repr(Machine *m, Builder *b, Value v);
Text jinja_to_text(Machine *m, Value v); /* str(v) */
Text jinja_repr_text(Machine *m, Value v);
Text jinja_ascii_text(Machine *m,
                      Value v); /* Python's ascii(v): repr(v) with escapes past U+007F */

/* The shortest digits that read back as `f`, laid out as Python does. Returns the length. */
enum { FLOAT_TEXT_SIZE = 400 };
int jinja_float_repr(double f, char text[static FLOAT_TEXT_SIZE]);

/* Numbers that are printed as they were written (Value.written): keeps the digits, which outlive
 * the machine, and returns what to set `written` to; the digits of a number, or NULL. */
uint32_t jinja_note_digits(Machine *m, const char *digits);
const char *jinja_number_digits(const Machine *m, Value v);

NORETURN void jinja_fail_undefined(Machine *m, Value undefined);

#endif
