/* GGUF's blocks with scales inside scales (Q2_K to Q6_K, IQ4_XS) and with levels from a table
 * (IQ4_NL, MXFP4, NVFP4). Called by stored.c. */
#ifndef FORMATS_STORED_STORED_K_H
#define FORMATS_STORED_STORED_K_H

#include "formats/stored/stored_type.h"
#include "kernels/superblocks.h"

/* Splits one block into codes, scales and minima at `to`. */
void stored_k_block_to_superblocks(StoredType type, const uint8_t *block,
                                   const SuperblockCodes *to);

/* Converts n elements (whole blocks) to float32. */
void stored_k_to_floats(StoredType type, const uint8_t *stored, size_t n, float *out);

/* The same for NVFP4 beside a factor, in ModelOpt's order: factor times scale, rounded, times the
 * level. */
void stored_k_nvfp4_to_floats(const uint8_t *stored, size_t n, float factor, float *out);

#endif
