/* What the machine could do at best: the limits that `bench` measures the model against. */
#ifndef BENCH_LIMITS_H
#define BENCH_LIMITS_H

#include "isa.h"

/* Bytes of the largest cache; 0 when the system does not say. */
size_t bench_cache_bytes(void);

/* Memory to read, and how: what a decoding step's speed is compared with. Neighbours on a shared
 * machine change the memory's speed within seconds, so each comparison reads anew. */
typedef struct Reading Reading;

/* `data` (borrowed) should be much larger than the last cache; NULL: a temporary file of at least
 * four times the last cache, mapped. Tries several ways to read with n_threads and keeps the
 * fastest. */
Status bench_reading_open(Reading **out, const void *data, size_t bytes, int n_threads,
                          Error *error);
void bench_reading_close(Reading *reading);
/* Reads everything once: bytes a second. */
double bench_reading_pass(const Reading *reading);

/* Operations a second (two a multiply-add) of the instruction set's products on registers. */
double bench_peak(const Kernels *kernels, bool integers, int n_threads);

/* The middle one of n values, which it sorts. */
double bench_median(double *values, size_t n);

#endif
