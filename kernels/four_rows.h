/* Block kernels of up to four rows, as AVX2 and NEON have registers for. */
#ifndef KERNELS_FOUR_ROWS_H
#define KERNELS_FOUR_ROWS_H

#include "kernels/blocks.h"

/* A BlockKernel around multiply_block(type, w, p, rows, ...) with rows known to the compiler. */
#define ROWS_CASE(type, count)                                                                     \
    case count:                                                                                    \
        multiply_block(type, w, p, count, block, out, stride, outputs);                            \
        break
#define BLOCK_KERNEL(name, type)                                                                   \
    static void name(const Matrix *w, size_t p, size_t rows, const uint8_t *block, float *out,     \
                     size_t stride, size_t outputs) {                                              \
        switch (rows) {                                                                            \
            ROWS_CASE(type, 1);                                                                    \
            ROWS_CASE(type, 2);                                                                    \
            ROWS_CASE(type, 3);                                                                    \
            ROWS_CASE(type, 4);                                                                    \
        }                                                                                          \
    }

#endif
