/* The tables of what templates can call; NULL for an unknown name. */
#ifndef TEMPLATE_BUILTINS_H
#define TEMPLATE_BUILTINS_H

#include "template/call.h"

const Builtin *find_filter(Text name);                             /* filters.c */
const Builtin *find_test(Text name);                               /* tests.c */
const Builtin *find_global(Text name);                             /* globals.c */
const Builtin *find_method(Value object, Text name, bool *unsafe); /* methods.c */

#endif
