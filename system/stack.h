/* The stack that a program needs. */
#ifndef STACK_H
#define STACK_H

#include <stdbool.h>

/* Called first by main, which itself has no large variables. False, with a line on stderr, when the
 * limit (ulimit -s) is below 128 KiB, with which the program would end in SIGSEGV somewhere. */
bool stack_suffices(void);

#endif
