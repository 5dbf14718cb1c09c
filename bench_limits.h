/* What the machine could do at best: the limits that `bench` measures the model against. */
#ifndef BENCH_LIMITS_H
#define BENCH_LIMITS_H

#include "isa.h"

/* Bytes of the largest cache; 0 when the system does not say. */
size_t bench_cache_bytes(void);

/* Bytes a second that n_threads read from `data` together: the best of several read kernels,
 * each the median of its passes. `data` should be much larger than the last cache. */
double bench_read_bandwidth(const void *data, size_t bytes, int n_threads);

/* The same over a temporary file of at least four times the last cache, mapped. */
Status bench_file_bandwidth(int n_threads, double *bandwidth, Error *error);

/* Operations a second (two a multiply-add) of the instruction set's products on registers. */
double bench_peak(const Kernels *kernels, bool integers, int n_threads);

/* Seconds of a clock that only goes forward; and the middle one of n values, which it sorts. */
double bench_clock(void);
double bench_median(double *values, size_t n);

#endif
