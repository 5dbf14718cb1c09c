/* Blocks of ik_llama.cpp's types: IQ2_K to IQ6_K, IQ2_KS to IQ5_KS, IQ4_KSS and IQ2_KL. Called by
 * stored.c. */
#ifndef FORMATS_STORED_STORED_IK_H
#define FORMATS_STORED_STORED_IK_H

#include "formats/stored/stored_type.h"
#include "kernels/superblocks.h"

bool stored_is_ik(StoredType type);

/* Splits one block into codes, scales and whether groups' levels are raised, at `to`. */
void stored_ik_block_to_superblocks(StoredType type, const uint8_t *block,
                                    const SuperblockCodes *to);

/* Converts n elements (whole blocks) to float32. */
void stored_ik_to_floats(StoredType type, const uint8_t *stored, size_t n, float *out);

#endif
