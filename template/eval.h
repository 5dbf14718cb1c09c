/* Running a parsed template. */
#ifndef TEMPLATE_EVAL_H
#define TEMPLATE_EVAL_H

#include "template/tree.h"

/* Runs the statements (bound by jinja_bind_names, which gave `frame`) and appends their text to
 * *out. */
void jinja_run(Machine *m, const Node *statements, const Frame *frame, const Dict *inputs,
               Builder *out);

#endif
