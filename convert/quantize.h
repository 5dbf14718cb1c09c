/* Float32 weights into codes with scales.
 *
 * Rounding to the nearest code of a scale that reaches the largest weight is not the best that
 * a group can do: for each group several scales are tried, each is refined by least squares,
 * rounded to f16 as it will be stored, and the one with the smallest weighted error wins. A
 * weight's error counts by its input's importance (calibrate.h). Where that is not known it counts
 * by mean(x^2) + x^2: large weights then count more. Deterministic: the same floats give the same
 * codes on every machine. */
#ifndef FORMATS_QUANTIZE_H
#define FORMATS_QUANTIZE_H

#include "kernels/records.h"

/* One row: x[padded cols], filled up with zeros, into codes[padded cols], scales and minima
 * [groups] (minima: NULL for types without) as panel_pack_codes takes them. importance[padded
 * cols]: what a squared error of each input's weights counts; NULL: not known. */
void quantize_row(TensorType type, size_t padded_cols, const float *x, const float *importance,
                  uint8_t *codes, uint16_t *scales, uint16_t *minima);

/* The same for the types of records.h; `row` points at the row's elements. */
void quantize_records(TensorType type, size_t padded_cols, const float *x, const float *importance,
                      const RecordCodes *row);

#endif
