/* The plain kernels that the program has, as one more instruction set, "portable", of the tests.
 * The set "reference" of the tests is the same source built with the processor's fused
 * multiply-add, where it has one: the same bits in less time. */
#ifndef TESTS_PORTABLE_H
#define TESTS_PORTABLE_H

#include <stdbool.h>

/* Whether isa_available lists "portable", after "reference"; at first it does not. */
void portable_list(bool listed);

#endif
