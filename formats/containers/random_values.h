/* Generated weights: what a tensor of a random model (random.h) holds.
 *
 * Element i of the tensor `name` is center + spread * n / 2^20 with
 *     h = splitmix64(fnv1a64(name) + (i + 1) * 0x9E3779B97F4A7C15)
 *     n = 2 * (h >> 44) + 1 - 2^20                                  (odd, |n| < 2^20)
 * in double, rounded to float32 once: the hash of the tests' fixtures. */
#ifndef FORMATS_CONTAINERS_RANDOM_VALUES_H
#define FORMATS_CONTAINERS_RANDOM_VALUES_H

#include <stddef.h>
#include <stdint.h>

/* Makes elements [first, first + n) of the tensor. */
void random_values(const char *name, float center, float spread, uint64_t first, size_t n,
                   float *out);

#endif
