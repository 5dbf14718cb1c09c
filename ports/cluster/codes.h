/* The inputs of a quantized product as ranks send them: what the kernels make of a group of them,
 * 8-bit codes and one number (kernels/activations.h), in a third of the bytes.
 *
 * Lossless for the product: the numbers that codes_unpack gives are not those that codes_pack was
 * given, but a kernel that quantizes them makes the same codes and the same scale. A group travels
 * as its largest magnitude and its codes; unpacked, a code of +-127 is that magnitude itself, and
 * any other one is its fraction of it, which rounds back to the code. */
#ifndef CLUSTER_CODES_H
#define CLUSTER_CODES_H

#include <stddef.h>

/* The floats' room that n inputs in groups of `group` take; the last group may be shorter. */
size_t codes_floats(size_t n, size_t group);

void codes_pack(const float *x, size_t n, size_t group, float *packed);
void codes_unpack(const float *packed, size_t n, size_t group, float *x);

#endif
