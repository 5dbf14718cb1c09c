/* tojson: Python's json.dumps, byte for byte. */
#ifndef TEMPLATE_TOJSON_H
#define TEMPLATE_TOJSON_H

#include "template/value.h"

/* Returns the JSON text of a value. `ascii` escapes all characters past ASCII. `indent` is None, a
 * number of spaces or a string; `separators` is None or a pair of strings. */
Text jinja_to_json(Machine *m, Value v, bool ascii, Value indent, Value separators, bool sort_keys);

#endif
