/* Which kernels of avx2_panels.h the types of superblocks.h have, with AVX2 and AVX-VNNI. */
#ifndef KERNELS_AVX2_SUPERBLOCKS_H
#define KERNELS_AVX2_SUPERBLOCKS_H

#include "kernels/avx2_panels.h"

/* Types whose codes are cheap to take apart: unpacking pays from MANY_ROWS rows on. */
#define EACH_LATE_TYPE(X)                                                                          \
    X(Q4_K)                                                                                        \
    X(MXFP4)                                                                                       \
    X(NVFP4)                                                                                       \
    X(Q2_0)                                                                                        \
    X(TQ2_0)                                                                                       \
    X(Q1_0)                                                                                        \
    X(NVFP4_T)                                                                                     \
    X(IQ2_KS)                                                                                      \
    X(IQ3_KS)

/* Types with groups of 32 inputs whose levels AVX2 splits. */
#define EACH_SPLIT_TYPE(X) X(Q4_NL) X(IQ4_XS) X(IQ4_KS) X(IQ5_KS)

/* Types with a codebook, where looking up points takes most of the time. */
#define EACH_CODEBOOK_TYPE(X)                                                                      \
    X(IQ2_XXS) X(IQ2_XS) X(IQ2_S) X(IQ3_XXS_G) X(IQ3_S_G) X(IQ1_S) X(IQ1_M)

/* Types that are unpacked from SOON_ROWS on, measured on Zen 4. */
#define EACH_SOON_TYPE(X) X(Q5_K) X(Q6_K) X(Q2_K) X(Q3_K) X(IQ3_XXS) X(IQ3_S) X(Q5_0) X(Q5_1)

/* Types with uneven levels for each 16 inputs: a block that takes their codes apart for 5 or 6 rows
 * spills its sums, and is no faster than unpacking. */
#define EACH_FEW_TYPE(X)                                                                           \
    X(IQ2) X(IQ1) X(IQ2_K) X(IQ3_K) X(IQ4_K) X(IQ5_K) X(IQ6_K) EACH_CODEBOOK_TYPE(X)

_Static_assert((EACH_LATE_TYPE(COUNT_TYPE) EACH_SPLIT_TYPE(COUNT_TYPE) EACH_SOON_TYPE(COUNT_TYPE)
                    EACH_FEW_TYPE(COUNT_TYPE)) == (EACH_SUPERBLOCK_TYPE(COUNT_TYPE)),
               "each type of EACH_SUPERBLOCK_TYPE belongs to one of the four lists");

/* Unpacked codes differ only in the size of the group, in how far they are raised or whether they
 * are split, in minima, and in how many of their products fit into 16 bits. So types share tiles.
 */
#define EACH_OWN_TILE(X)                                                                           \
    X(Q4_K)                                                                                        \
    X(Q5_K)                                                                                        \
    X(Q6_K)                                                                                        \
    X(Q4_NL)                                                                                       \
    X(MXFP4)                                                                                       \
    X(NVFP4)                                                                                       \
    X(Q2_K)                                                                                        \
    X(Q3_K)                                                                                        \
    X(IQ2)                                                                                         \
    X(IQ3_XXS)                                                                                     \
    X(Q2_0)                                                                                        \
    X(IQ2_KS)                                                                                      \
    X(IQ4_K)

/* The tile of each type. */
#define TILE_OF_Q4_K tile_Q4_K
#define TILE_OF_Q5_K tile_Q5_K
#define TILE_OF_Q6_K tile_Q6_K
#define TILE_OF_Q4_NL tile_Q4_NL
#define TILE_OF_MXFP4 tile_MXFP4
#define TILE_OF_NVFP4 tile_NVFP4
#define TILE_OF_Q2_K tile_Q2_K
#define TILE_OF_Q3_K tile_Q3_K
#define TILE_OF_IQ2 tile_IQ2
#define TILE_OF_IQ1 tile_NVFP4
#define TILE_OF_IQ3_XXS tile_IQ3_XXS
#define TILE_OF_IQ3_S tile_MXFP4
#define TILE_OF_IQ4_XS tile_Q4_NL
#define TILE_OF_Q2_0 tile_Q2_0
#define TILE_OF_TQ2_0 tile_Q2_0
#define TILE_OF_Q1_0 tile_Q2_0
#define TILE_OF_NVFP4_T tile_NVFP4
#define TILE_OF_IQ2_K tile_Q6_K
#define TILE_OF_IQ2_KS tile_IQ2_KS
#define TILE_OF_IQ3_K tile_IQ2
#define TILE_OF_IQ3_KS tile_IQ3_XXS
#define TILE_OF_IQ4_K tile_IQ4_K
#define TILE_OF_IQ4_KS tile_Q4_NL
#define TILE_OF_IQ5_K tile_IQ4_K
#define TILE_OF_IQ5_KS tile_Q4_NL
#define TILE_OF_IQ6_K tile_IQ4_K
#define TILE_OF_Q5_0 tile_MXFP4
#define TILE_OF_Q5_1 tile_Q5_K
#define TILE_OF_IQ2_XXS tile_IQ2
#define TILE_OF_IQ2_XS tile_IQ2
#define TILE_OF_IQ2_S tile_IQ2
#define TILE_OF_IQ3_XXS_G tile_IQ3_XXS
#define TILE_OF_IQ3_S_G tile_MXFP4
#define TILE_OF_IQ1_S tile_NVFP4
#define TILE_OF_IQ1_M tile_NVFP4

/* Defines the kernels of all types of superblocks, and the table of them. */
#define SUPERBLOCK_KERNELS_TABLE(table)                                                            \
    EACH_OWN_TILE(TILE_KERNEL)                                                                     \
    EACH_LATE_TYPE(SHARED_KERNELS)                                                                 \
    EACH_SPLIT_TYPE(SHARED_KERNELS)                                                                \
    EACH_SOON_TYPE(SHARED_KERNELS)                                                                 \
    EACH_FEW_TYPE(FEW_SHARED_KERNELS)                                                              \
    const BlockKernels table[TENSOR_TYPES] = {EACH_LATE_TYPE(PANEL_ENTRY) EACH_SPLIT_TYPE(         \
        SPLIT_SOON_ENTRY) EACH_SOON_TYPE(SOON_ENTRY) EACH_FEW_TYPE(FEW_ENTRY)}

#endif
