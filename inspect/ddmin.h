/* Delta debugging (Zeller and Hildebrandt, 2002: ddmin): a subset of n things that still passes a
 * test and is 1-minimal: without any single one of its things it fails. There may be other such
 * subsets, and smaller ones. */
#ifndef DDMIN_H
#define DDMIN_H

#include "base/status.h"

/* Whether things[n], in rising order, pass. */
typedef Status DdminTest(void *context, const size_t *things, size_t n, bool *passes, Error *error);

/* things[*n], rising and passing, become the subset. The order of the tests depends on their
 * results alone. */
Status ddmin(size_t *things, size_t *n, DdminTest *test, void *context, Error *error);

#endif
