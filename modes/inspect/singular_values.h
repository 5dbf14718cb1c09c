/* The singular values of a small matrix: how many directions it really has. */
#ifndef SINGULAR_VALUES_H
#define SINGULAR_VALUES_H

#include <stddef.h>

/* Fills values[cols] with the singular values of a[rows][cols], the largest first, by one-sided
 * Jacobi rotations of its columns (Hestenes 1958; Golub and Van Loan, section 8.6.3), which a is
 * used for. Its relative error is some 1e-12. */
void singular_values(double *a, size_t rows, size_t cols, double *values);

/* How many of the values, which fall, hold a share of the sum of all squares; 0 if all are 0. */
size_t singular_values_holding(const double *values, size_t n, double share);

#endif
