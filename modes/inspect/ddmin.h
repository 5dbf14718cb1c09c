/* Delta debugging (Zeller and Hildebrandt, 2002: ddmin): a subset of n things that still passes a
 * test and is 1-minimal: without any single one of its things it fails. There may be other such
 * subsets, and smaller ones. */
#ifndef DDMIN_H
#define DDMIN_H

#include "base/status.h"

/* Whether things[n], in rising order, pass. */
typedef Status DdminTest(void *context, const size_t *things, size_t n, bool *passes, Error *error);

/* Reduces things[*n], which rise and pass, to a smallest subset that passes, in the same order. The
 * empty set is never tested: a caller that cannot rule out that it passes tests it before. Sets
 * that have failed are not tested again. Which tests are run depends on the results of earlier ones
 * alone. */
Status ddmin(size_t *things, size_t *n, DdminTest *test, void *context, Error *error);

#endif
