/* AVX-VNNI reads the panels of AVX2, so that its kernels are AVX2's with one instruction changed
 * and isa_list.h has no lanes of its own for it. */
#ifndef KERNELS_AVXVNNI_SUPERBLOCKS_H
#define KERNELS_AVXVNNI_SUPERBLOCKS_H

#include "kernels/block_kernels.h"

extern const BlockKernels superblock_kernels_avxvnni[TENSOR_TYPES];

#endif
