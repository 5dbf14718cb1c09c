/* Quantizes float32 weights into superblocks: groups whose scales are quantized in turn. How scales
 * are chosen is explained in quantize.h. */
#ifndef QUANTIZE_SUPERBLOCKS_H
#define QUANTIZE_SUPERBLOCKS_H

#include "kernels/superblocks.h"

/* Like quantize_row for the types of superblocks.h; `row` points at the row's elements. */
void quantize_superblocks(TensorType type, size_t padded_cols, const float *x,
                          const float *importance, const SuperblockCodes *row);

#endif
