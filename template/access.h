/* Reaching into values: Jinja's a[b], a.b and a[b:c]. */
#ifndef TEMPLATE_ACCESS_H
#define TEMPLATE_ACCESS_H

#include "template/value.h"

/* V_UNDEFINED where the object lacks the item or attribute. jinja_get_item tries the items of the
 * object first, jinja_get_attr its attributes. */
Value jinja_get_item(Machine *m, Value object, Value key);
Value jinja_get_attr(Machine *m, Value object, Text name);
Value jinja_get_own_attr(Machine *m, Value object, Text name); /* no items; V_MISSING: none */
Value jinja_get_slice(Machine *m, Value object, Value start, Value stop,
                      Value step); /* None: left out */

#endif
