/* --bug-report: what a maintainer needs to know, in one block to paste: the program, the machine,
 * the model and which options were given. No prompt, no text, no name of a file stands in it. */
#ifndef BUG_REPORT_H
#define BUG_REPORT_H

#include "session/mode.h"

/* What is printed before the model is parsed, so that a model that is refused is reported as well,
 * and after. */
extern const Mode bug_report_mode;

#endif
