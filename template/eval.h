/* Running a parsed template. */
#ifndef TEMPLATE_EVAL_H
#define TEMPLATE_EVAL_H

#include "template/tree.h"

/* Runs the statements (bound by bind_names, which gave `frame`) and appends their text to *out. */
void run(Machine *m, const Node *statements, const Frame *frame, const Dict *inputs, Builder *out);

#endif
