/* The quantile function of the standard normal distribution. */
#ifndef FORMATS_STORED_NORMAL_QUANTILE_H
#define FORMATS_STORED_NORMAL_QUANTILE_H

#include <math.h>

/* The x below which the part 0 < p < 1 of the distribution lies: bisection of erfc, to the last
 * bit of a float32. */
static inline double normal_quantile(double p) {
    double low = -40.0, high = 40.0;
    for (int i = 0; i < 80; i++) {
        double x = (low + high) / 2.0;
        if (erfc(-x / sqrt(2.0)) / 2.0 < p)
            low = x;
        else
            high = x;
    }
    return (low + high) / 2.0;
}

#endif
