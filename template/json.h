/* tojson: Python's json.dumps, byte for byte. */
#ifndef TEMPLATE_JSON_H
#define TEMPLATE_JSON_H

#include "template/value.h"

/* `indent` is None, a number of spaces or a string; `separators` None or a pair of strings. */
Text to_json(Machine *m, Value v, bool ascii, Value indent, Value separators, bool sort_keys);

#endif
