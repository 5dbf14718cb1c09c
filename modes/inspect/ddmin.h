/* Delta debugging (Zeller and Hildebrandt, 2002: ddmin): a subset of n things that still passes a
 * test and is 1-minimal: without any single one of its things it fails. There may be other such
 * subsets, and smaller ones. */
#ifndef DDMIN_H
#define DDMIN_H

#include "base/status.h"

/* Whether things[n], in rising order, pass. */
typedef Status DdminTest(void *context, const size_t *things, size_t n, bool *passes, Error *error);

/* Delta debugging (ddmin): reduces things[*n], which are in rising order and pass, to a subset that
 * passes and from which none can be left out. The empty set is never tested; if it might pass, the
 * caller tests it first. Sets that have failed are not tested again. Which tests are run depends
 * only on the results of earlier ones. */
Status ddmin(size_t *things, size_t *n, DdminTest *test, void *context, Error *error);

#endif
