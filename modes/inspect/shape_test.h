/* --shape-test FILE: which lines of a file have the shape that --json-schema and its kin give, and
 * where the others lose it. */
#ifndef SHAPE_TEST_H
#define SHAPE_TEST_H

#include "session/mode.h"

extern const Mode shape_test_mode;

#endif
