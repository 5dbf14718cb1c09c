/* Products of the types of superblocks.h with AVX2. */
#include "kernels/avx2_superblocks.h"

SUPERBLOCK_KERNELS_TABLE(superblock_kernels_avx2);
