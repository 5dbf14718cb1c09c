/* Block kernels of up to four rows, for which AVX2 and NEON have registers. A file that uses these
 * macros must define before
 *
 *     multiply_block(type, w, p, rows, block, out, stride, outputs)   an always-inlined BlockKernel
 *     BLOCK_ROWS                                                      4 */
#ifndef KERNELS_FOUR_ROWS_H
#define KERNELS_FOUR_ROWS_H

#include "kernels/block_kernels.h"

#define ROWS_CASE(type, count)                                                                     \
    case count:                                                                                    \
        multiply_block(TENSOR_##type, w, p, count, block, out, stride, outputs);                   \
        break

/* Defines block_TYPE, which calls multiply_block with type and rows known to the compiler. */
#define BLOCK_KERNEL(type)                                                                         \
    static void block_##type(const Matrix *w, size_t p, size_t rows, const uint8_t *block,         \
                             float *out, size_t stride, size_t outputs) {                          \
        switch (rows) {                                                                            \
            ROWS_CASE(type, 1);                                                                    \
            ROWS_CASE(type, 2);                                                                    \
            ROWS_CASE(type, 3);                                                                    \
            ROWS_CASE(type, 4);                                                                    \
        }                                                                                          \
    }

/* The entry of block_TYPE in a table of BlockKernels. */
#define BLOCK_ENTRY(type) [TENSOR_##type] = {.block_rows = BLOCK_ROWS, .block = block_##type},

#endif
