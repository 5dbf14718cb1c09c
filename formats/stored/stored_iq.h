/* GGUF's types of 1 to 3 bits: codebooks of points (IQ), and those with two to four levels (Q1_0,
 * TQ1_0, TQ2_0, Q2_0). Called by stored.c. */
#ifndef FORMATS_STORED_STORED_IQ_H
#define FORMATS_STORED_STORED_IQ_H

#include "formats/stored/stored_type.h"
#include "kernels/superblocks.h"

/* Takes a block of a type with two to four levels apart for superblocks_pack; `to` points at its
 * elements, a scale for each 32 weights. */
void stored_few_levels_to_superblocks(StoredType type, const uint8_t *block,
                                      const SuperblockCodes *to);

/* Takes a block of a type with a codebook apart for superblocks_pack, for panels of the type's
 * `lossless` or `wide` type; `to` points at its elements. */
void stored_iq_block_to_superblocks(StoredType type, TensorType panel, const uint8_t *block,
                                    const SuperblockCodes *to);

/* Converts n elements (whole blocks) to float32. */
void stored_iq_to_floats(StoredType type, const uint8_t *stored, size_t n, float *out);

#endif
