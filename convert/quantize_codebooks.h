/* Quantizes to the types with a codebook (kernels/codebooks.h). */
#ifndef CONVERT_QUANTIZE_CODEBOOKS_H
#define CONVERT_QUANTIZE_CODEBOOKS_H

#include "kernels/superblocks.h"

/* quantize_superblocks for these types: chooses the scale of each 16 or 32 inputs by a search, and
 * for each eight inputs the point of the codebook, of all, that is nearest. */
void quantize_codebooks(TensorType type, size_t n, const float *x, const float *importance,
                        const SuperblockCodes *row);

#endif
