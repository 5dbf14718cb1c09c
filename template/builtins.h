/* What templates can call by name. Each table ends with an entry without a name. */
#ifndef TEMPLATE_BUILTINS_H
#define TEMPLATE_BUILTINS_H

#include "template/call.h"

extern const Builtin jinja_filters[]; /* template/filters.c */
extern const Builtin jinja_tests[];   /* template/tests.c */
extern const Builtin jinja_globals[]; /* template/globals.c */

#endif
