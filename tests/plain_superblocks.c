/* kernels/plain_superblocks.c as plain_superblocks_first, for the first instruction set of this
 * processor's list in the Makefile: AVX2 or NEON. */
#if defined(__x86_64__) || defined(__aarch64__)
#define SUPERBLOCK_KERNELS plain_superblocks_first
#include "kernels/plain_superblocks.c"
#else
typedef int no_superblocks_to_multiply;
#endif
