/* The peak of each type's product with AVX2 or AVX-VNNI, for `bench`: the instructions that 32
 * multiply-adds of the inner loops of avx2_tile.h need, in assembler and on registers alone, so
 * that no compiler adds or reorders any. Loads, scales and float sums are not counted. */
#ifndef KERNELS_AVX2_PEAK_H
#define KERNELS_AVX2_PEAK_H

#include "kernels/avx2_tile.h"

/* One product: `d` is the register of a sum, `t` a temporary one; %0 holds weights, %1 activations,
 * %2 ones. */
#define PEAK_VNNI(d, t) "%{vex%} vpdpbusd %1, %0, %%ymm" #d "\n\t"
#define PEAK_SIGNED(d, t)                                                                          \
    "vpxor %0, %1, %%ymm" #t "\n\t"                                                                \
    "vpmaddubsw %%ymm" #t ", %0, %%ymm" #t "\n\t"                                                  \
    "vpmaddwd %2, %%ymm" #t ", %%ymm" #t "\n\t"                                                    \
    "vpaddd %%ymm" #t ", %%ymm" #d ", %%ymm" #d "\n\t"
#define PEAK_PAIRS(d, t)                                                                           \
    "vpmaddubsw %1, %0, %%ymm" #t "\n\t"                                                           \
    "vpaddw %%ymm" #t ", %%ymm" #d ", %%ymm" #d "\n\t"
/* Widens the sums of 16 bits that a run of PEAK_PAIRS has made. */
#define PEAK_WIDEN(d, t)                                                                           \
    "vpmaddwd %2, %%ymm" #d ", %%ymm" #t "\n\t"                                                    \
    "vpaddd %%ymm" #t ", %%ymm" #d ", %%ymm" #d "\n\t"

/* Eight products, each with a sum of its own. */
#define PEAK_EIGHT(X) X(0, 8) X(1, 9) X(2, 10) X(3, 11) X(4, 8) X(5, 9) X(6, 10) X(7, 11)
#define PEAK_RUN(body)                                                                             \
    __asm__ volatile(body                                                                          \
                     :                                                                             \
                     : "x"(zero), "x"(zero), "x"(zero)                                             \
                     : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8",     \
                       "xmm9", "xmm10", "xmm11")

/* Runs the products of a quantized type. Returns operations, two for each multiply-add. */
static double peak_of_type(TensorType type, size_t rounds) {
    enum { PRODUCTS = 8 };
    const __m256i zero = _mm256_setzero_si256();
    const size_t run = sums_that_fit(type); /* a power of two */
    for (size_t r = 1; r <= rounds; r++) {
        if (VNNI) {
            PEAK_RUN(PEAK_EIGHT(PEAK_VNNI));
        } else if (is_signed_product(type)) {
            PEAK_RUN(PEAK_EIGHT(PEAK_SIGNED));
        } else {
            PEAK_RUN(PEAK_EIGHT(PEAK_PAIRS));
            if ((r & (run - 1)) == 0) PEAK_RUN(PEAK_EIGHT(PEAK_WIDEN));
        }
    }
    return 2.0 * 32 * PRODUCTS * (double)rounds;
}

#endif
