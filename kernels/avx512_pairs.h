/* Products of many rows with AVX-512 VNNI (avx512_pairs.c), for every quantized type. */
#ifndef AVX512_PAIRS_H
#define AVX512_PAIRS_H

#include "kernels/avx512_steps.h"

/* A ManyKernel, on blocks of at most 12 rows. */
void avx512_pairs_multiply(const Product *product, const uint8_t *input, size_t n_rows,
                           size_t begin, size_t end, void *scratch);

/* From how many rows on avx512_pairs_multiply is faster than block_TYPE, measured on Zen 5; 0:
 * never. On a core with one 512-bit port both take the same time. */
enum {
    MANY_Q8 = 11,
    MANY_Q8_64 = 24,
    MANY_Q4 = 48,
    MANY_Q4_MIN = 0,
    MANY_Q8_MIN = 11,
    MANY_Q4_K = 96,
    MANY_Q5_K = 48,
    MANY_Q6_K = 11,
    MANY_Q4_NL = 48,
    MANY_MXFP4 = 96,
    MANY_NVFP4 = 48,
    MANY_Q2_K = 48, /* not measured: as nvfp4, whose groups are as large */
    MANY_Q3_K = 11, /* the same, as q6_k */
    MANY_IQ2 = 11,  /* and as q6_k */
    MANY_IQ1 = 11,
    MANY_IQ3_XXS = 48, /* and as q4_nl */
    MANY_IQ3_S = 48,
    MANY_IQ4_XS = 48,
    MANY_Q2_0 = 48, /* and as q4 */
    MANY_TQ2_0 = 48,
    MANY_Q1_0 = 48,
    MANY_NVFP4_T = 48,
    MANY_IQ2_K = 11, /* and those of ik_llama.cpp as q6_k, or as q4_nl */
    MANY_IQ2_KS = 48,
    MANY_IQ3_K = 11,
    MANY_IQ3_KS = 48,
    MANY_IQ4_K = 48,
    MANY_IQ4_KS = 48,
    MANY_IQ5_K = 11,
    MANY_IQ5_KS = 11,
    MANY_IQ6_K = 11,
    MANY_Q5_0 = 48, /* and as q5_k */
    MANY_Q5_1 = 48,
    MANY_IQ2_XXS = 5, /* those with a codebook: looking up its points takes most of the time */
    MANY_IQ2_XS = 5,
    MANY_IQ2_S = 5,
    MANY_IQ3_XXS_G = 5,
    MANY_IQ3_S_G = 5,
    MANY_IQ1_S = 5,
    MANY_IQ1_M = 5
};

/* Their entry in a table of BlockKernels, with a stream kernel and without. */
#define STREAM_ENTRY(type)                                                                         \
    [TENSOR_##type] = {BLOCK_ROWS,    block_##type, STREAM_ROWS,                                   \
                       stream_##type, MANY_##type,  avx512_pairs_multiply},
#define BLOCK_ENTRY(type)                                                                          \
    [TENSOR_##type] = {BLOCK_ROWS, block_##type, 0, NULL, MANY_##type, avx512_pairs_multiply},

#endif
