/* Template text to a tree. */
#ifndef TEMPLATE_PARSE_H
#define TEMPLATE_PARSE_H

#include "template/tree.h"

Node *jinja_parse(Machine *m, Text source); /* the statements, linked by `next` */

#endif
