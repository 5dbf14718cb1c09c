/* '%s: %d' % (a, b) */
#ifndef TEMPLATE_FORMAT_PERCENT_H
#define TEMPLATE_FORMAT_PERCENT_H

#include "template/value.h"

Text jinja_format_percent(Machine *m, Value format, Value values);

#endif
