/* Quantizes float32 weights: into codes with a scale for each group.
 *
 * Scaling the largest weight of a group to the largest code and rounding is not the best choice.
 * For each group several scales are tried; each is refined by least squares and rounded to f16, as
 * it will be stored, and the one with the smallest weighted error wins. The error of a weight is
 * weighted by the importance of its input (calibrate.h) or, where that is not known, by
 * mean(x^2) + x^2, so that large weights count more. The same floats give the same codes on every
 * machine. */
#ifndef QUANTIZE_H
#define QUANTIZE_H

#include "kernels/tensor.h"

/* Quantizes one row x[padded cols], which ends with zeros, into codes[padded cols], scales and
 * minima [groups] (minima: NULL for types without) as panel_pack_codes and superblocks_pack take
 * them. importance[padded cols] are the weights of the inputs' squared errors; NULL: not known. */
void quantize_row(TensorType type, size_t padded_cols, const float *x, const float *importance,
                  uint8_t *codes, uint16_t *scales, uint16_t *minima);

#endif
