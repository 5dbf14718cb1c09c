/* What --eval-tasks says of shares and of two models on the same items. */
#ifndef STATISTICS_H
#define STATISTICS_H

#include <stddef.h>

/* Wilson's interval, 95 %, of a share: `hits` of n > 0 (E. B. Wilson, "Probable inference, the law
 * of succession, and statistical inference", 1927). */
void statistics_wilson_interval(size_t hits, size_t n, double *low, double *high);

/* McNemar's test, exact and two-sided: of the items on which the models differ, `a` are right by
 * one alone and `b` by the other alone. The probability of a split as uneven as this or more if
 * neither were better (Q. McNemar, 1947). */
double statistics_mcnemar_p(size_t a, size_t b);

#endif
