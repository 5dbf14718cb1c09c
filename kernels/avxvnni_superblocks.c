/* Products of the types of superblocks.h with AVX-VNNI. */
#include "kernels/avxvnni_superblocks.h"

#include "kernels/avx2_superblocks.h"

SUPERBLOCK_KERNELS_TABLE(superblock_kernels_avxvnni);
