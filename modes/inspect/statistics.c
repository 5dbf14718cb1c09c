#include "modes/inspect/statistics.h"

#include <math.h>

void statistics_wilson_interval(size_t hits, size_t n, double *low, double *high) {
    static const double z = 1.959963984540054; /* of 97.5 % */
    double p = (double)hits / (double)n, d = 1.0 + z * z / (double)n;
    double middle = (p + z * z / (2.0 * (double)n)) / d;
    double half = z / d * sqrt(p * (1.0 - p) / (double)n + z * z / (4.0 * (double)n * (double)n));
    *low = hits == 0 ? 0.0 : middle - half;
    *high = hits == n ? 1.0 : middle + half;
}

double statistics_mcnemar_p(size_t a, size_t b) {
    size_t n = a + b, few = a < b ? a : b;
    double log_term = -(double)n * log(2.0), sum = 0.0, term = 1.0;
    if (n == 0) return 1.0;
    /* The binomial coefficient (n over few) / 2^n, then the smaller ones relative to it. */
    for (size_t k = 1; k <= few; k++) log_term += log((double)(n - few + k)) - log((double)k);
    for (size_t k = few;; k--) {
        sum += term;
        if (k == 0) break;
        term *= (double)k / (double)(n - k + 1);
    }
    double p = 2.0 * exp(log_term) * sum;
    return p < 1.0 ? p : 1.0;
}
