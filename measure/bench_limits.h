/* The limits of the machine that `bench` compares a model's speed with: how fast memory can be
 * read, and how fast the processor multiplies. */
#ifndef BENCH_LIMITS_H
#define BENCH_LIMITS_H

#include "core/isa.h"

/* Memory to read and the fastest way to read it. On a shared machine the memory's speed changes
 * within seconds, so bench measures it again, with bench_reading_pass, before each few steps. */
typedef struct Reading Reading;

/* Prepares to measure how fast `data`, which is borrowed, can be read; it should be much larger
 * than the last cache. NULL: a mapped temporary file of at least four times that cache. Tries
 * several ways to read with n_threads threads and keeps the fastest. */
Status bench_reading_open(Reading **out, const void *data, size_t bytes, int n_threads,
                          Error *error);
void bench_reading_close(Reading *reading);
/* Reads everything once and returns bytes a second. */
double bench_reading_pass(const Reading *reading);

/* Peak operations a second of the multiply-adds that a product of this type needs, on registers;
 * each counts as two operations. It is measured some times, for as many seconds. */
double bench_peak(const Kernels *kernels, TensorType type, int n_threads, double seconds);

/* The median of n values, which it sorts. */
double bench_median(double *values, size_t n);

#endif
