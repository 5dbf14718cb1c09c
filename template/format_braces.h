/* '{}: {:>5}'.format(a, b) */
#ifndef TEMPLATE_FORMAT_BRACES_H
#define TEMPLATE_FORMAT_BRACES_H

#include "template/call.h"

Text jinja_format_braces(Machine *m, Value format, const Args *args);

#endif
