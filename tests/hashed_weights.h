/* Weights of test models, from one integer hash of tensor name and element index, so that no
 * weights are committed: tests/fixtures/weights.py gives the same bits. The definition is in
 * tests/fixtures/README.md. */
#ifndef HASHED_WEIGHTS_H
#define HASHED_WEIGHTS_H

#include <stddef.h>
#include <stdint.h>

/* FNV-1a, 64 bits, of the UTF-8 name. */
uint64_t hashed_name(const char *name);

/* The element's 64 bits: SplitMix64's output function. */
uint64_t hashed_element(uint64_t name_hash, uint64_t index);

/* offset + scale * n / 2^bits rounded once to float32; n odd, |n| < 2^bits, the hash's top
 * bits (1 <= bits <= 24). */
float hashed_weight(uint64_t name_hash, uint64_t index, unsigned bits, double scale, double offset);

/* out[n]: the elements of the tensor called `name`. */
void hashed_tensor(const char *name, unsigned bits, double scale, double offset, float *out,
                   size_t n);

#endif
