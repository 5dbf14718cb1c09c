/* Products of the types of FAMILY_CODES with AVX2, and the table of its kernels. */
#include "kernels/avx2_panels.h"

EACH_CODE_TYPE(PANEL_KERNELS)

static const BlockKernels block_kernels[TENSOR_TYPES] = {EACH_CODE_TYPE(PANEL_ENTRY)};

#define FLOAT_KERNELS float_avx2
#define RECORD_KERNELS record_kernels_avx2
#include "kernels/block_table.h"

static double spin(bool integers, size_t rounds) {
    enum { SUMS = 12 };
    if (!integers) return float_avx2.spin(rounds);
    volatile int32_t zero = 0;
    const __m256i a = _mm256_set1_epi32(zero), ones = _mm256_set1_epi16(1);
    __m256i sums[SUMS];
#pragma GCC unroll 12
    for (size_t i = 0; i < SUMS; i++) sums[i] = _mm256_set1_epi32(zero + (int)i);
    for (size_t r = 0; r < rounds; r++)
#pragma GCC unroll 12
        for (size_t i = 0; i < SUMS; i++) { /* each depends on the last: nothing can be hoisted */
            __m256i pairs = _mm256_maddubs_epi16(sums[i], a);
            sums[i] = _mm256_add_epi32(sums[i], _mm256_madd_epi16(pairs, ones));
        }
#pragma GCC unroll 12
    for (size_t i = 1; i < SUMS; i++) sums[0] = _mm256_add_epi32(sums[0], sums[i]);
    zero = _mm256_extract_epi32(sums[0], 0);
    return 2.0 * 32 * SUMS * (double)rounds;
}

const Kernels kernels_avx2 = {
    .name = "avx2",
    .stripe = 4,
    .scratch_bytes = SCRATCH_BYTES,
    .input_bytes = input_bytes,
    .pack_tasks = pack_tasks,
    .pack = pack,
    .multiply = multiply,
    .spin = spin,
};
