/* The tables of what templates can call; NULL for an unknown name. */
#ifndef TEMPLATE_BUILTINS_H
#define TEMPLATE_BUILTINS_H

#include "template/call.h"

const Builtin *jinja_find_filter(Text name);                             /* filters.c */
const Builtin *jinja_find_test(Text name);                               /* tests.c */
const Builtin *jinja_find_global(Text name);                             /* globals.c */
const Builtin *jinja_find_method(Value object, Text name, bool *unsafe); /* methods.c */

#endif
