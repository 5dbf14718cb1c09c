#include "modes/inspect/singular_values.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

/* The sum over all rows of column p times column q. */
static double product_of(const double *a, size_t rows, size_t cols, size_t p, size_t q) {
    double sum = 0.0;
    for (size_t i = 0; i < rows; i++) sum += a[i * cols + p] * a[i * cols + q];
    return sum;
}

/* Turns columns p and q so that their product becomes 0; returns whether it was not yet. */
static bool make_orthogonal(double *a, size_t rows, size_t cols, size_t p, size_t q) {
    const double small = 1e-13;
    double pp = product_of(a, rows, cols, p, p), qq = product_of(a, rows, cols, q, q);
    double pq = product_of(a, rows, cols, p, q);
    if (fabs(pq) <= small * sqrt(pp * qq) || pq == 0.0) return false;
    double zeta = (qq - pp) / (2.0 * pq);
    double t = (zeta < 0.0 ? -1.0 : 1.0) / (fabs(zeta) + sqrt(1.0 + zeta * zeta));
    double cosine = 1.0 / sqrt(1.0 + t * t), sine = cosine * t;
    for (size_t i = 0; i < rows; i++) {
        double x = a[i * cols + p], y = a[i * cols + q];
        a[i * cols + p] = cosine * x - sine * y;
        a[i * cols + q] = sine * x + cosine * y;
    }
    return true;
}

static int falling(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? 1 : x > y ? -1 : 0;
}

void singular_values(double *a, size_t rows, size_t cols, double *values) {
    enum { MOST_SWEEPS = 40 }; /* ten are usual */
    bool turned = true;
    for (int sweep = 0; turned && sweep < MOST_SWEEPS; sweep++) {
        turned = false;
        for (size_t p = 0; p < cols; p++)
            for (size_t q = p + 1; q < cols; q++)
                turned = make_orthogonal(a, rows, cols, p, q) || turned;
    }
    for (size_t p = 0; p < cols; p++) values[p] = sqrt(product_of(a, rows, cols, p, p));
    qsort(values, cols, sizeof *values, falling);
}

size_t singular_values_holding(const double *values, size_t n, double share) {
    double all = 0.0, sum = 0.0;
    for (size_t i = 0; i < n; i++) all += values[i] * values[i];
    for (size_t i = 0; i < n && all > 0.0; i++) {
        sum += values[i] * values[i];
        if (sum >= share * all) return i + 1;
    }
    return all > 0.0 ? n : 0;
}
