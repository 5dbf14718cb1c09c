/* Weights that a conversion makes smaller because their new type holds none as large: f16 ends at
 * 65504, and so do the float16 scales of q8, q4 and most other quantized types. bf16 ends at
 * 3.39e38, a little below float32. Below 2^-40 bf16_act has no numbers but 0. */
#ifndef CONVERT_SATURATION_H
#define CONVERT_SATURATION_H

#include <stdbool.h>

#include "kernels/tensor.h"

/* Clamps the values of x[n] that bf16 would round to infinity to its largest number, as the
 * conversion to float16 does (numbers_float_to_half). Nothing for other types. */
void saturation_clamp(TensorType type, float *x, size_t n);

/* Counts the weights of a panel, x[PANEL_ROWS][padded cols], that its type does not hold. In a
 * float type these are the weights that became smaller by more than rounding; in a quantized type,
 * all weights of a group whose largest is above 65504 and where none came out half as large. `row`
 * is working memory for [padded cols]. Raises *largest to the largest of them. */
size_t saturation_count(TensorType type, size_t cols, const float *x, const uint8_t *panel,
                        float *row, float *largest);

/* False when bf16_act would round one of x[n] to infinity: a conversion refuses what it clamps for
 * bf16. True for other types. */
bool saturation_fits(TensorType type, const float *x, size_t n);

/* How many of x[n] are not 0 and become 0, because their type, bf16_act, has no such small numbers.
 */
size_t saturation_cleared(TensorType type, const float *x, size_t n);

#endif
