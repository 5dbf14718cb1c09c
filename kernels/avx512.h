/* What the two AVX-512 kernel files share: a register is a panel's 16 outputs. */
#ifndef KERNELS_AVX512_H
#define KERNELS_AVX512_H

#include <immintrin.h>

#include "kernels/blocks.h"

#define INLINE static inline __attribute__((always_inline))

/* Rows of a block at most; sums of `panels` by `rows` outputs at most. */
enum { BLOCK_ROWS = 12, BLOCK_SUMS = 12, STREAM_ROWS = 3 };

/* 16 numbers of 16 bits as floats. */
INLINE __m512 load_halves(const void *p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
}

INLINE __m512i broadcast_4_codes(const uint8_t *p) {
    int32_t codes;
    memcpy(&codes, p, sizeof codes);
    return _mm512_set1_epi32(codes);
}

/* The sums of `panels` neighbouring panels by `rows` rows, of which the matrix has `outputs`. */
INLINE void store_block(size_t panels, size_t rows, const __m512 *acc, float *out, size_t stride,
                        size_t outputs) {
#pragma GCC unroll 4
    for (size_t j = 0; j < panels; j++) {
        size_t left = outputs - j * PANEL_ROWS;
        __mmask16 store = left < PANEL_ROWS ? (__mmask16)((1u << left) - 1) : 0xffff;
#pragma GCC unroll 12
        for (size_t r = 0; r < rows; r++)
            _mm512_mask_storeu_ps(out + r * stride + j * PANEL_ROWS, store, acc[j * rows + r]);
    }
}

/* BlockKernels around multiply_block(type, panels, rows, ...) with both known to the compiler: NAME
 * of one panel, NAME_stream of STREAM_PANELS. */
#define ROWS_CASE(type, panels, rows)                                                              \
    case rows:                                                                                     \
        multiply_block(type, panels, rows, w, p, block, out, stride, outputs);                     \
        break
#define BLOCK_KERNEL(name, type)                                                                   \
    static void name(const Matrix *w, size_t p, size_t rows, const uint8_t *block, float *out,     \
                     size_t stride, size_t outputs) {                                              \
        switch (rows) {                                                                            \
            ROWS_CASE(type, 1, 1);                                                                 \
            ROWS_CASE(type, 1, 2);                                                                 \
            ROWS_CASE(type, 1, 3);                                                                 \
            ROWS_CASE(type, 1, 4);                                                                 \
            ROWS_CASE(type, 1, 5);                                                                 \
            ROWS_CASE(type, 1, 6);                                                                 \
            ROWS_CASE(type, 1, 7);                                                                 \
            ROWS_CASE(type, 1, 8);                                                                 \
            ROWS_CASE(type, 1, 9);                                                                 \
            ROWS_CASE(type, 1, 10);                                                                \
            ROWS_CASE(type, 1, 11);                                                                \
            ROWS_CASE(type, 1, 12);                                                                \
        }                                                                                          \
    }                                                                                              \
    static void name##_stream(const Matrix *w, size_t p, size_t rows, const uint8_t *block,        \
                              float *out, size_t stride, size_t outputs) {                         \
        switch (rows) {                                                                            \
            ROWS_CASE(type, STREAM_PANELS, 1);                                                     \
            ROWS_CASE(type, STREAM_PANELS, 2);                                                     \
            ROWS_CASE(type, STREAM_PANELS, 3);                                                     \
        }                                                                                          \
    }

#endif
