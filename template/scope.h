/* Which variable a name means, decided before the template runs. */
#ifndef TEMPLATE_SCOPE_H
#define TEMPLATE_SCOPE_H

#include "template/tree.h"

/* Gives every name of the tree its variable and every filter and test its function; returns the
 * template's outermost frame. Fails for what jinja2 refuses when it compiles. */
Frame *jinja_bind_names(Machine *m, Node *statements);

#endif
