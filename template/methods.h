/* Methods of strings, lists, dicts and of Jinja's own objects. */
#ifndef TEMPLATE_METHODS_H
#define TEMPLATE_METHODS_H

#include "template/call.h"

/* Builtins.method */
const Builtin *jinja_find_method(Value object, Text name, bool *unsafe);

#endif
